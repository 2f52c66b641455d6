//! `Cpu`: a thread pool and an instruction set, the two things every kernel call needs.

use std::sync::Arc;

use crate::affinity;
use crate::error::KernelError;
use crate::isa::Isa;
use crate::pool::Pool;

/// The environment variable that lowers the instruction set `Cpu::new` chooses.
const ISA_VARIABLE: &str = "MENAGERIE_ISA";

/// Where kernels run: cheap to clone, all clones share one pool. The instruction set was checked to be
/// available on this processor when the value was made; kernels rely on it.
#[derive(Clone, Debug)]
pub struct Cpu {
    pool: Arc<Pool>,
    isa: Isa,
}

impl Cpu {
    /// A pool of `threads` (none: as many as the affinity mask and the cgroup quota allow) and the best
    /// instruction set, or the one named by `MENAGERIE_ISA`. Errors: no threads, an unknown or unavailable
    /// instruction set, a thread that does not start.
    pub fn new(threads: Option<usize>) -> Result<Cpu, KernelError> {
        let isa = match std::env::var(ISA_VARIABLE) {
            Ok(name) => Isa::from_name(&name)?,
            Err(std::env::VarError::NotPresent) => Isa::detect(),
            Err(std::env::VarError::NotUnicode(raw)) => Isa::from_name(&raw.to_string_lossy())?,
        };
        Cpu::with_isa(threads, isa)
    }

    /// The same with the instruction set given. Error if this processor does not have it.
    pub fn with_isa(threads: Option<usize>, isa: Isa) -> Result<Cpu, KernelError> {
        let isa = Isa::from_name(isa.name())?;
        let threads = threads.unwrap_or_else(affinity::usable_threads);
        Ok(Cpu { pool: Arc::new(Pool::new(threads)?), isa })
    }

    /// The threads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The instruction set; available on this processor.
    pub fn isa(&self) -> Isa {
        self.isa
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
