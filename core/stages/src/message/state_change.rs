//! [`StateChange`]: changes of the memory of states between steps.

use crate::block_copies::BlockCopies;
use crate::frame::payload::{PayloadReader, PayloadWriter};
use menagerie_model::{ModelError, StateId, StatePool};
use std::ops::Range;

/// A change of one state in one of the state sets ([`menagerie_model::PoolOptions::sets`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetChange {
    pub(crate) set: u32,
    pub(crate) change: StateChange,
}

impl SetChange {
    pub(crate) fn encode(self, out: &mut PayloadWriter) {
        out.u32(self.set);
        self.change.encode(out);
    }

    pub(crate) fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        Ok(Self { set: from.u32()?, change: StateChange::decode(from)? })
    }

    /// Applies the change to the pool of a stage whose states have the numbers `own`.
    pub(crate) fn apply(
        self,
        own: &Range<usize>,
        pool: &mut StatePool,
        copies: &mut BlockCopies,
    ) -> Result<(), ModelError> {
        pool.use_set(self.set as usize)?;
        self.change.apply(own, pool, copies)
    }
}

/// A change of one state. States are numbered over the whole model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateChange {
    /// Copies a page.
    CopyPage {
        /// The state.
        state: u32,
        /// Source.
        from: u32,
        /// Target.
        to: u32,
    },
    /// Copies a block.
    CopyBlock {
        /// The state.
        state: u32,
        /// Source.
        from: u32,
        /// Target.
        to: u32,
    },
    /// Fills a block with zeros.
    Clear {
        /// The state.
        state: u32,
        /// The block.
        block: u32,
    },
    /// Keeps a copy of a block.
    Keep {
        /// The state.
        state: u32,
        /// The block.
        block: u32,
        /// The number of the copy.
        copy: u64,
    },
    /// Restores a block from a copy.
    Put {
        /// The state.
        state: u32,
        /// The block.
        block: u32,
        /// The number of the copy.
        copy: u64,
    },
    /// Drops a copy.
    Forget {
        /// The state.
        state: u32,
        /// The number of the copy.
        copy: u64,
    },
}

impl StateChange {
    fn encode(self, out: &mut PayloadWriter) {
        let (kind, state, place, other) = match self {
            Self::CopyPage { state, from, to } => (0, state, from, u64::from(to)),
            Self::CopyBlock { state, from, to } => (1, state, from, u64::from(to)),
            Self::Clear { state, block } => (2, state, block, 0),
            Self::Keep { state, block, copy } => (3, state, block, copy),
            Self::Put { state, block, copy } => (4, state, block, copy),
            Self::Forget { state, copy } => (5, state, 0, copy),
        };
        out.u8(kind);
        out.u32(state);
        out.u32(place);
        out.u64(other);
    }

    fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        let (kind, state, place, other) = (from.u8()?, from.u32()?, from.u32()?, from.u64()?);
        let to =
            || u32::try_from(other).map_err(|_| format!("the page or block number {other} is too large"));
        Ok(match kind {
            0 => Self::CopyPage { state, from: place, to: to()? },
            1 => Self::CopyBlock { state, from: place, to: to()? },
            2 => Self::Clear { state, block: place },
            3 => Self::Keep { state, block: place, copy: other },
            4 => Self::Put { state, block: place, copy: other },
            5 => Self::Forget { state, copy: other },
            kind => return Err(format!("unknown kind {kind} of state change")),
        })
    }

    fn state(self) -> u32 {
        match self {
            Self::CopyPage { state, .. }
            | Self::CopyBlock { state, .. }
            | Self::Clear { state, .. }
            | Self::Keep { state, .. }
            | Self::Put { state, .. }
            | Self::Forget { state, .. } => state,
        }
    }

    fn apply(
        self,
        own: &Range<usize>,
        pool: &mut StatePool,
        copies: &mut BlockCopies,
    ) -> Result<(), ModelError> {
        let number = self.state() as usize;
        if !own.contains(&number) {
            return Ok(());
        }
        let state = StateId(number - own.start);
        match self {
            Self::CopyPage { from, to, .. } => pool.memory_of(state, &[from, to])?.copy_page(state, from, to),
            Self::CopyBlock { from, to, .. } => {
                pool.memory_of(state, &[from, to])?.copy_block(state, from, to)
            }
            Self::Clear { block, .. } => pool.memory_of(state, &[block])?.clear_block(state, block),
            Self::Keep { block, copy, .. } => {
                copies.insert(copy, pool.memory_of(state, &[block])?.keep_block(state, block)?);
                Ok(())
            }
            Self::Put { block, copy, .. } => {
                pool.memory_of(state, &[block])?.put_block(state, block, copies.get(copy)?)
            }
            Self::Forget { copy, .. } => {
                copies.remove(copy);
                Ok(())
            }
        }
    }
}
