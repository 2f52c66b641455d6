//! `Cpu`: a thread pool, an instruction set and the sizes of the caches: what every kernel call needs.

use std::sync::Arc;

use crate::caches::Caches;
use crate::error::KernelError;
use crate::isa::{DetectedIsa, Isa};
use crate::pool::{Pool, usable_threads};

/// How `Arithmetic::Fast` multiplies F16 weights. The name refers to prompts, because the choice affects their speed; a
/// single row is multiplied in the same way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HalfPrompts {
    /// In f32: weights are widened and nothing is rounded. At least as exact as llama.cpp, which rounds activations to
    /// F16.
    #[default]
    Float32,
    /// Weights and activations are rounded to bfloat16 (8 of F16's 11 bits) and summed in f32 if the processor has such
    /// products ([`Cpu::has_half_prompts`]: AVX-512 BF16). Nearly twice as fast, with a hundred times the error of
    /// llama.cpp: a KL divergence of the next token's distribution of 5e-4 instead of 4e-6, measured on one model.
    BFloat16,
}

/// The options of a `Cpu`; the default is the best that the machine supports.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct CpuOptions {
    /// Threads; `None`: as many as the affinity mask and the quota of the control group allow.
    pub threads: Option<usize>,
    /// The instruction set; `None`: the best one. An application that lets its user choose passes
    /// `Isa::from_environment`.
    pub isa: Option<Isa>,
    /// The sizes of the caches; `None`: those that the system reports.
    pub caches: Option<Caches>,
    /// How F16 weights are multiplied.
    pub half_prompts: HalfPrompts,
}

impl CpuOptions {
    /// The same with this [`Self::threads`].
    #[must_use]
    pub fn with_threads(self, threads: impl Into<Option<usize>>) -> Self {
        Self { threads: threads.into(), ..self }
    }

    /// The same with this [`Self::isa`].
    #[must_use]
    pub fn with_isa(self, isa: impl Into<Option<Isa>>) -> Self {
        Self { isa: isa.into(), ..self }
    }

    /// The same with this [`Self::caches`].
    #[must_use]
    pub fn with_caches(self, caches: impl Into<Option<Caches>>) -> Self {
        Self { caches: caches.into(), ..self }
    }

    /// The same with this [`Self::half_prompts`].
    #[must_use]
    pub fn with_half_prompts(self, half_prompts: HalfPrompts) -> Self {
        Self { half_prompts, ..self }
    }
}

/// Where kernels run: threads and an instruction set. Cheap to clone; all clones share one pool. It carries the proof
/// that this processor has the instruction set.
#[derive(Clone, Debug)]
pub struct Cpu {
    pool: Arc<Pool>,
    level: DetectedIsa,
    caches: Caches,
    half_prompts: HalfPrompts,
}

impl Cpu {
    /// A pool of `threads` threads (`None`: as many as the process may use) and the best instruction set.
    ///
    /// # Errors
    /// As [`Cpu::with_options`].
    pub fn new(threads: Option<usize>) -> Result<Cpu, KernelError> {
        Cpu::with_options(CpuOptions { threads, ..CpuOptions::default() })
    }

    /// Like `new`, with this instruction set.
    ///
    /// # Errors
    /// As [`Cpu::with_options`].
    pub fn with_isa(threads: Option<usize>, isa: Isa) -> Result<Cpu, KernelError> {
        Cpu::with_options(CpuOptions { threads, isa: Some(isa), ..CpuOptions::default() })
    }

    /// A `Cpu` in every detail.
    ///
    /// # Errors
    /// [`KernelError::Isa`]: the processor does not have the instruction set. [`KernelError::Threads`]: zero threads,
    /// too many, or a thread that does not start.
    pub fn with_options(options: CpuOptions) -> Result<Cpu, KernelError> {
        let isa = options.isa.unwrap_or_else(Isa::detect);
        let level = DetectedIsa::of(isa).ok_or_else(|| isa.unavailable())?;
        let pool = Arc::new(Pool::new(options.threads.unwrap_or_else(usable_threads))?);
        let caches = options.caches.unwrap_or_else(Caches::detect);
        Ok(Cpu { pool, level, caches, half_prompts: options.half_prompts })
    }

    /// The threads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The instruction set; available on this processor.
    pub fn isa(&self) -> Isa {
        self.level.isa()
    }

    /// The sizes of the caches, by which work is divided.
    pub fn caches(&self) -> Caches {
        self.caches
    }

    /// Whether [`HalfPrompts::BFloat16`] has any effect here: whether the processor and the instruction set have such
    /// products.
    pub fn has_half_prompts(&self) -> bool {
        self.level.multiplies_bfloat16()
    }

    /// The instruction set with its proof.
    #[inline]
    pub(crate) fn level(&self) -> DetectedIsa {
        self.level
    }

    /// How F16 weights are multiplied.
    pub fn half_prompts(&self) -> HalfPrompts {
        self.half_prompts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_pool() {
        let cpu = Cpu::with_isa(Some(2), Isa::Portable).unwrap();
        assert!(std::ptr::eq(cpu.pool(), cpu.clone().pool()));
        assert_eq!((cpu.pool().threads(), cpu.isa()), (2, Isa::Portable));
    }

    #[test]
    fn an_instruction_set_of_another_processor_is_refused() {
        let foreign = if cfg!(target_arch = "aarch64") { Isa::Avx2 } else { Isa::Neon };
        assert!(matches!(Cpu::with_isa(Some(1), foreign), Err(KernelError::Isa { .. })));
        assert!(matches!(Cpu::with_isa(Some(0), Isa::Portable), Err(KernelError::Threads(_))));
    }
}
