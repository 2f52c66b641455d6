//! Proofs that this processor has an instruction set: they make the kernels' `unsafe` sound.
//!
//! Only `detect`, which queries the processor, creates a token. The holder of a token may call functions compiled for
//! its features; no other argument is needed, and no other is used in this crate.

use super::Isa;

/// Puts the target features of `Avx2` on a function.
#[cfg(target_arch = "x86_64")]
macro_rules! avx2 {
    ($($item:tt)*) => {
        #[target_feature(enable = "avx2,fma,f16c")]
        $($item)*
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use avx2;

/// Puts the target features of `Avx512` on a function.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($($item:tt)*) => {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
        $($item)*
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512;

/// Puts the target features of `Avx512Bytes` on a function.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512_bytes {
    ($($item:tt)*) => {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512vbmi,gfni,bmi2,avx2,fma,f16c"
        )]
        $($item)*
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512_bytes;

/// Proof of nothing: every processor can run plain Rust.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

/// Proof that this processor has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// The proof, if there is one.
    pub(crate) fn detect() -> Option<Avx2> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        found.then_some(Avx2(()))
    }
}

/// Proof that this processor has AVX-512 F, BW, VL, DQ and VNNI, and everything of `Avx2`.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The proof, if there is one.
    pub(crate) fn detect() -> Option<Avx512> {
        Avx2::detect()?;
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vnni");
        found.then_some(Avx512(()))
    }

    /// Proof of the older instructions.
    pub(crate) fn avx2(self) -> Avx2 {
        Avx2(())
    }

    /// Proof of the products of bfloat16, which not every such processor has.
    pub(crate) fn bfloat16(self) -> Option<Avx512BFloat16> {
        is_x86_feature_detected!("avx512bf16").then_some(Avx512BFloat16(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Proof of the permutations of bytes and the features that came with them, which the first such processors do not
    /// have.
    pub(crate) fn bytes(self) -> Option<Avx512Bytes> {
        let found = is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("gfni")
            && is_x86_feature_detected!("bmi2");
        found.then_some(Avx512Bytes(()))
    }
}

/// Proof of all features of `Avx512` and of AVX-512 VBMI, GFNI and BMI2.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512Bytes(());

/// Proof of all features of `Avx512` and of AVX-512 BF16.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512BFloat16(());

/// Proof that this is aarch64, whose baseline has Advanced SIMD.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neon(());

#[cfg(target_arch = "aarch64")]
impl Neon {
    /// The proof, which always exists.
    pub(crate) fn detect() -> Option<Neon> {
        Some(Neon(()))
    }

    /// Proof of the dot products of bytes (`dotprod`).
    pub(crate) fn dot_products(self) -> Option<DotProducts> {
        std::arch::is_aarch64_feature_detected!("dotprod").then_some(DotProducts(()))
    }

    /// Proof of the matrix products of bytes (`i8mm`).
    pub(crate) fn matrix_products(self) -> Option<MatrixProducts> {
        std::arch::is_aarch64_feature_detected!("i8mm").then_some(MatrixProducts(()))
    }
}

/// Proof of the dot products of bytes.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct DotProducts(());

/// Proof of the matrix products of bytes.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixProducts(());

/// An instruction set with its proof: chosen when a `Cpu` is made, and the root of every choice of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DetectedIsa {
    /// Plain Rust.
    Portable(Portable),
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// Advanced SIMD.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl DetectedIsa {
    /// The proof for an instruction set, if this processor has it.
    pub(crate) fn of(isa: Isa) -> Option<DetectedIsa> {
        match isa {
            Isa::Portable => Some(DetectedIsa::Portable(Portable)),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => Avx2::detect().map(DetectedIsa::Avx2),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => Avx512::detect().map(DetectedIsa::Avx512),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => Neon::detect().map(DetectedIsa::Neon),
            _ => None,
        }
    }

    /// The best one that this processor has.
    pub(crate) fn best() -> DetectedIsa {
        DetectedIsa::of(Isa::detect()).unwrap_or(DetectedIsa::Portable(Portable))
    }

    /// Features beyond it that kernels use and that this processor has.
    pub(crate) fn extensions(self) -> Vec<&'static str> {
        match self {
            #[cfg(target_arch = "x86_64")]
            DetectedIsa::Avx512(isa) => {
                let products = isa.bfloat16().map(|_| "avx512bf16");
                products.into_iter().chain(isa.bytes().map(|_| "avx512vbmi")).collect()
            }
            #[cfg(target_arch = "aarch64")]
            DetectedIsa::Neon(isa) => {
                let dots = isa.dot_products().map(|_| "dotprod");
                dots.into_iter().chain(isa.matrix_products().map(|_| "i8mm")).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether it has products of bfloat16, which multiply 16-bit floats of both kinds in matrix products.
    pub(crate) fn multiplies_bfloat16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            DetectedIsa::Avx512(isa) => isa.bfloat16().is_some(),
            _ => false,
        }
    }

    /// Its name.
    pub(crate) fn isa(self) -> Isa {
        match self {
            DetectedIsa::Portable(_) => Isa::Portable,
            #[cfg(target_arch = "x86_64")]
            DetectedIsa::Avx2(_) => Isa::Avx2,
            #[cfg(target_arch = "x86_64")]
            DetectedIsa::Avx512(_) => Isa::Avx512,
            #[cfg(target_arch = "aarch64")]
            DetectedIsa::Neon(_) => Isa::Neon,
        }
    }
}
