//! The instruction-set attribute shared by all functions here, so that they inline into each other.

/// Puts the target features of `Isa::Avx512` on a function.
macro_rules! avx512 {
    ($($item:tt)*) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,f16c,fma,avx2")]
        $($item)*
    };
}
pub(super) use avx512;
