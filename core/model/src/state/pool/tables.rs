//! [`StateTables`]: which pages and blocks belong to which sequence.

use super::group::PageGroup;
use super::pages::Pages;
use super::sequence::PooledSequence;
use crate::state::plan::PoolLayout;
use crate::state::{SequenceId, StateId, StateRoom, StateSpec};
use crate::{ModelError, Result};
use menagerie_formulas::KvType;
use std::sync::atomic::{AtomicU64, Ordering};

/// Which pages and blocks of a [`super::StateBacking`] belong to which sequence, for the operations of a backend.
pub struct StateTables {
    pub(super) specs: Vec<StateSpec>,
    dtypes: Vec<Option<KvType>>,
    group_of: Vec<Option<usize>>,
    pub(super) groups: Vec<PageGroup>,
    pub(super) page_len: usize,
    pub(super) block_bytes: usize,
    pub(super) slots: Vec<SequenceSlot>,
    /// Number of the pool, which distinguishes its sequences from those of others.
    pub(super) pool: u64,
}

/// Pools that were made.
static POOLS: AtomicU64 = AtomicU64::new(0);

/// A place for a sequence, with its block in every per-sequence state; the generation distinguishes a reused place from
/// the sequence that used it before.
pub(super) struct SequenceSlot {
    pub(super) generation: u32,
    pub(super) sequence: Option<PooledSequence>,
}

impl StateTables {
    pub(super) fn new(layout: PoolLayout) -> Self {
        let PoolLayout { plan, groups, group_of, block_bytes } = layout;
        let dtype = |room: &StateRoom| match room {
            StateRoom::Pages { dtype, .. } => Some(*dtype),
            StateRoom::Blocks { .. } => None,
        };
        Self {
            dtypes: plan.rooms.iter().map(dtype).collect(),
            specs: plan.specs,
            group_of,
            groups: groups.into_iter().map(PageGroup::new).collect(),
            page_len: plan.page_len,
            block_bytes,
            slots: Vec::new(),
            pool: POOLS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Where the rows of a per-token state are: committed ones that are visible, and those of the prepared step.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence, or there is no such sequence.
    pub fn pages(&self, state: StateId, sequence: SequenceId) -> Result<Pages<'_>> {
        let Some(&Some(group)) = self.group_of.get(state.0) else {
            return Err(self.other_kind(state));
        };
        let table = &self.sequence(sequence)?.tables[group];
        Ok(Pages { first_page: table.first, pages: &table.pages, page_len: self.page_len })
    }

    /// The block of a per-sequence state.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per token, or there is no such sequence.
    pub fn block(&self, state: StateId, sequence: SequenceId) -> Result<u32> {
        self.sequence(sequence)?;
        match self.group_of.get(state.0) {
            Some(None) => Ok(sequence.slot() as u32),
            _ => Err(self.other_kind(state)),
        }
    }

    /// What was declared.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such state.
    pub fn spec(&self, state: StateId) -> Result<&StateSpec> {
        self.specs.get(state.0).ok_or_else(|| self.other_kind(state))
    }

    /// How rows of a per-token state are stored.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence.
    pub fn dtype(&self, state: StateId) -> Result<KvType> {
        self.dtypes.get(state.0).copied().flatten().ok_or_else(|| self.other_kind(state))
    }

    /// The group of a per-token state; none for a per-sequence one.
    pub(super) fn group_of(&self, state: StateId) -> Result<Option<usize>> {
        self.group_of.get(state.0).copied().ok_or_else(|| self.other_kind(state))
    }

    /// Per-sequence states.
    pub(super) fn blocks(&self) -> impl Iterator<Item = StateId> {
        let per_sequence =
            |(index, group): (usize, &Option<usize>)| group.is_none().then_some(StateId(index));
        self.group_of.iter().enumerate().filter_map(per_sequence)
    }

    pub(super) fn sequence(&self, id: SequenceId) -> Result<&PooledSequence> {
        let slot =
            self.slots.get(id.slot()).filter(|slot| (slot.generation, self.pool) == (id.generation, id.pool));
        slot.and_then(|slot| slot.sequence.as_ref()).ok_or_else(|| unknown(id))
    }

    /// The sequence with the groups of its pages.
    pub(super) fn sequence_mut(&mut self, id: SequenceId) -> Result<(&mut PooledSequence, &mut [PageGroup])> {
        let slot = self.slots.get_mut(id.slot());
        let slot = slot.filter(|slot| (slot.generation, self.pool) == (id.generation, id.pool));
        let sequence = slot.and_then(|slot| slot.sequence.as_mut()).ok_or_else(|| unknown(id))?;
        Ok((sequence, &mut self.groups))
    }

    /// Sequences that are there.
    pub(super) fn sequences(&self) -> usize {
        self.slots.iter().filter(|slot| slot.sequence.is_some()).count()
    }

    /// A place for a new sequence.
    pub(super) fn vacant(&mut self, most: usize) -> Result<u32> {
        let free = self.slots.iter().position(|slot| slot.sequence.is_none());
        let index = free.unwrap_or(self.slots.len());
        if index >= most {
            return Err(ModelError::State(format!(
                "the pool has {most} sequences, and all are in use; free one, or create a larger pool"
            )));
        }
        if free.is_none() {
            self.slots.push(SequenceSlot { generation: 0, sequence: None });
        }
        Ok(index as u32)
    }

    /// Puts a sequence into a vacant place.
    pub(super) fn insert(&mut self, slot: u32, sequence: PooledSequence) -> SequenceId {
        let place = &mut self.slots[slot as usize];
        place.sequence = Some(sequence);
        SequenceId { pool: self.pool, slot, generation: place.generation }
    }

    pub(super) fn other_kind(&self, state: StateId) -> ModelError {
        ModelError::State(match self.specs.get(state.0) {
            Some(spec @ StateSpec::PerToken { .. }) => {
                format!("{} has rows per token, not a block per sequence", spec.name())
            }
            Some(spec) => format!("{} has a block per sequence, not rows per token", spec.name()),
            None => format!("state {} was not declared; the pool has {}", state.0, self.specs.len()),
        })
    }
}

fn unknown(sequence: SequenceId) -> ModelError {
    ModelError::State(format!(
        "sequence {sequence} does not exist: it was freed, or belongs to another pool; create or fork one"
    ))
}
