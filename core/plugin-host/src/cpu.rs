//! Features of the processor, with the numbers of the ABI.

use menagerie_plugin::abi::cpu_feature;

/// Names of the bits of [`cpu_feature`], for messages.
const NAMES: [(u64, &str); 10] = [
    (cpu_feature::AVX2, "avx2"),
    (cpu_feature::FMA, "fma"),
    (cpu_feature::F16C, "f16c"),
    (cpu_feature::AVX512F, "avx512f"),
    (cpu_feature::AVX512BW, "avx512bw"),
    (cpu_feature::AVX512VL, "avx512vl"),
    (cpu_feature::AVX512VNNI, "avx512vnni"),
    (cpu_feature::DOTPROD, "dotprod"),
    (cpu_feature::FP16, "fp16"),
    (cpu_feature::I8MM, "i8mm"),
];

/// The bits of the features that this processor has.
#[cfg(target_arch = "x86_64")]
pub(crate) fn features() -> u64 {
    use std::arch::is_x86_feature_detected as has;
    let found = [
        (cpu_feature::AVX2, has!("avx2")),
        (cpu_feature::FMA, has!("fma")),
        (cpu_feature::F16C, has!("f16c")),
        (cpu_feature::AVX512F, has!("avx512f")),
        (cpu_feature::AVX512BW, has!("avx512bw")),
        (cpu_feature::AVX512VL, has!("avx512vl")),
        (cpu_feature::AVX512VNNI, has!("avx512vnni")),
    ];
    found.into_iter().filter(|(_, has)| *has).map(|(bit, _)| bit).sum()
}

/// The bits of the features that this processor has.
#[cfg(target_arch = "aarch64")]
pub(crate) fn features() -> u64 {
    use std::arch::is_aarch64_feature_detected as has;
    let found = [
        (cpu_feature::DOTPROD, has!("dotprod")),
        (cpu_feature::FP16, has!("fp16")),
        (cpu_feature::I8MM, has!("i8mm")),
    ];
    found.into_iter().filter(|(_, has)| *has).map(|(bit, _)| bit).sum()
}

/// The bits of the features that this processor has; the ABI has none for this architecture.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) fn features() -> u64 {
    0
}

/// The names of bits; unknown bits by their position.
pub(crate) fn names(bits: u64) -> Vec<String> {
    let name = |bit: u64| {
        let known = NAMES.iter().find(|(known, _)| *known == bit).map(|(_, name)| (*name).to_owned());
        known.unwrap_or_else(|| format!("bit {}", bit.trailing_zeros()))
    };
    (0..64).map(|place| 1u64 << place).filter(|bit| bits & bit != 0).map(name).collect()
}
