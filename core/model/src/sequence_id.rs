//! [`SequenceId`]: the id of a sequence in a pool.

use std::fmt;

/// A sequence in a [`crate::StatePool`]; X-LoRA and speculation use several for one request. Another pool does not
/// accept it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId {
    /// Number of the pool.
    pub(crate) pool: u64,
    pub(crate) slot: u32,
    /// Sequences that used the slot before.
    pub(crate) generation: u32,
}

impl SequenceId {
    pub(crate) fn slot(self) -> usize {
        self.slot as usize
    }

    /// Two numbers that identify the sequence in this process: its pool's, and its own among those of the pool.
    pub fn numbers(self) -> [u64; 2] {
        [self.pool, u64::from(self.generation) << 32 | u64::from(self.slot)]
    }
}

impl fmt::Display for SequenceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.slot)?;
        if self.generation > 0 { write!(f, ".{}", self.generation) } else { Ok(()) }
    }
}
