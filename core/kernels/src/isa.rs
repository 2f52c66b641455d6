//! Instruction sets: which ones this processor has, detected at run time.

mod level;

use crate::error::KernelError;

pub(crate) use level::*;

/// The environment variable that names the family to use.
const VARIABLE: &str = "MENAGERIE_ISA";

/// The families of kernels; one is chosen when a [`Cpu`](crate::Cpu) is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// Plain Rust for the target's baseline. On x86-64, whose baseline has no fused multiply-add, each one is computed
    /// with a dozen operations: the same bits as the other families, but slowly.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL, DQ and VNNI (and everything of `Avx2`).
    Avx512,
    /// aarch64 with Advanced SIMD.
    Neon,
}

impl Isa {
    /// The best family that this processor (and its operating system) can run.
    pub fn detect() -> Isa {
        Isa::available().into_iter().max().unwrap_or(Isa::Portable)
    }

    /// Every family that can run here, `Portable` first.
    pub fn available() -> Vec<Isa> {
        [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon]
            .into_iter()
            .filter(|isa| isa.is_available())
            .collect()
    }

    /// Whether this processor can run the family.
    pub fn is_available(self) -> bool {
        DetectedIsa::of(self).is_some()
    }

    /// The name as `MENAGERIE_ISA` and `doctor` write it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
        }
    }

    /// The family of that name.
    ///
    /// # Errors
    /// [`KernelError::Isa`]: the name is unknown, or the family cannot run here; the message lists those that can.
    pub fn from_name(name: &str) -> Result<Isa, KernelError> {
        Isa::available().into_iter().find(|isa| isa.name() == name).ok_or_else(|| unavailable(name))
    }

    /// The error for a family that cannot run here.
    pub(crate) fn unavailable(self) -> KernelError {
        unavailable(self.name())
    }

    /// The family that the environment variable `MENAGERIE_ISA` names, or the best one if it is not set. For
    /// applications: nothing in this crate reads the environment by itself.
    ///
    /// # Errors
    /// [`KernelError::Isa`]: the name is unknown, or the family cannot run here.
    pub fn from_environment() -> Result<Isa, KernelError> {
        match std::env::var(VARIABLE) {
            Ok(name) => Isa::from_name(&name),
            Err(std::env::VarError::NotPresent) => Ok(Isa::detect()),
            Err(std::env::VarError::NotUnicode(raw)) => Isa::from_name(&raw.to_string_lossy()),
        }
    }

    /// Features beyond those of the family that this processor has and that some kernels of the family use, in the
    /// names of Rust's target features; kernels are chosen by them.
    pub fn extensions(self) -> Vec<&'static str> {
        DetectedIsa::of(self).map_or_else(Vec::new, DetectedIsa::extensions)
    }

    /// The features of this processor that kernels can use, in the names of Rust's target features.
    pub fn features() -> Vec<&'static str> {
        detected_features()
    }
}

fn unavailable(name: &str) -> KernelError {
    let available: Vec<&str> = Isa::available().iter().map(|isa| isa.name()).collect();
    KernelError::Isa { expected: name.to_owned(), available: available.join(", ") }
}

impl std::fmt::Display for Isa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(target_arch = "x86_64")]
fn detected_features() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! probe {
        ($($name:tt),*) => { $( if is_x86_feature_detected!($name) { found.push($name); } )* };
    }
    probe!("sse4.1", "ssse3", "avx", "avx2", "fma", "f16c", "bmi2", "avxvnni");
    probe!(
        "avx512f",
        "avx512bw",
        "avx512vl",
        "avx512dq",
        "avx512vnni",
        "avx512vbmi",
        "avx512bf16",
        "avx512fp16"
    );
    found
}

#[cfg(target_arch = "aarch64")]
fn detected_features() -> Vec<&'static str> {
    let mut found = Vec::new();
    macro_rules! probe {
        ($($name:tt),*) => { $( if std::arch::is_aarch64_feature_detected!($name) { found.push($name); } )* };
    }
    probe!("neon", "dotprod", "i8mm", "fp16", "bf16", "sve");
    found
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detected_features() -> Vec<&'static str> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_is_always_there_and_detect_is_available() {
        assert_eq!(Isa::available()[0], Isa::Portable);
        assert!(Isa::detect().is_available());
    }

    #[test]
    fn a_name_finds_its_family_and_a_wrong_one_lists_the_choices() {
        for isa in Isa::available() {
            assert_eq!(Isa::from_name(isa.name()), Ok(isa));
        }
        let error = Isa::from_name("avx9").unwrap_err().to_string();
        assert!(error.contains("avx9") && error.contains("portable"), "{error}");
    }
}
