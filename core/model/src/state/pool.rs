//! [`StatePool`]: owns the state of every sequence.

mod blocks;
mod group;
mod pages;
mod placed;
mod reserve;
mod retain;
mod sequence;
mod snapshot;
mod stored;
mod tables;
#[cfg(test)]
mod tests;

pub use pages::{Pages, RowRun};
pub use placed::{PlacedPages, Placement};
pub use snapshot::Snapshot;
pub use tables::StateTables;

use super::plan::PoolLayout;
use super::{PoolOptions, SequenceId, StateBacking, StateMemory, StatePlan, StateSpec};
use crate::{ModelError, Result};
use sequence::{Mark, PooledSequence};
use std::any::Any;

/// Owns the state of every sequence: token rows in pages that all sequences share, and blocks per sequence.
///
/// A step [`Self::prepare`]s its rows, a backend writes them, [`Self::advance`] makes them part of the sequence. Forks
/// share pages until one of them writes. Rows that have left the window of a state are freed page by page.
pub struct StatePool {
    tables: StateTables,
    /// The memory of each set: the tables record the pages and blocks of all of them.
    backings: Vec<Box<dyn StateBacking>>,
    /// The set that is read and written now.
    set: usize,
    options: PoolOptions,
    next_mark: u64,
}

impl StatePool {
    /// A pool for these states (`specs[i]` has id `i`) in the memory of a device.
    ///
    /// # Errors
    /// [`ModelError::State`] names a state that cannot be stored as requested, or a size that cannot be addressed;
    /// errors of the backend, such as a lack of memory.
    pub fn new(memory: &dyn StateMemory, specs: Vec<StateSpec>, options: PoolOptions) -> Result<Self> {
        Self::with_backing(specs, options, |plan| memory.state_backing(plan))
    }

    /// A pool over memory that `make` returns.
    ///
    /// # Errors
    /// As [`Self::new`]; errors of `make`.
    pub fn with_backing(
        specs: Vec<StateSpec>,
        options: PoolOptions,
        make: impl Fn(&StatePlan) -> Result<Box<dyn StateBacking>>,
    ) -> Result<Self> {
        let layout = PoolLayout::new(specs, &options)?;
        let backings = (0..options.sets).map(|_| make(&layout.plan)).collect::<Result<_>>()?;
        let tables = StateTables::new(layout);
        // Marks of another pool are not valid here.
        let next_mark = tables.pool << 32;
        Ok(Self { tables, backings, set: 0, options, next_mark })
    }

    /// The declared states, in the order of their ids.
    pub fn specs(&self) -> &[StateSpec] {
        &self.tables.specs
    }

    /// Reads and writes this set of the sequences' states from now on. Lengths, pages and snapshots are the same for
    /// all sets: a step writes its rows in each, and [`Self::advance`] commits them in each.
    ///
    /// # Errors
    /// [`ModelError::State`] if the pool was made with fewer sets ([`PoolOptions::sets`]).
    pub fn use_set(&mut self, set: usize) -> Result<()> {
        let sets = self.backings.len();
        if set >= sets {
            return Err(ModelError::State(format!(
                "state set {set} does not exist: the pool has {sets}; create it with as many sets as its model has \
                 passes"
            )));
        }
        self.set = set;
        Ok(())
    }

    /// The set that is read and written.
    pub fn set(&self) -> usize {
        self.set
    }

    /// How much the pool holds.
    pub fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// The tables, and the memory as the type of the backend.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if another backend made the memory.
    pub fn parts<T: 'static>(&self) -> Result<(&StateTables, &T)> {
        let backing: &dyn Any = &*self.backings[self.set];
        Ok((&self.tables, backing.downcast_ref().ok_or_else(foreign)?))
    }

    /// The tables, and the memory as the type of the backend, to write.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if another backend made the memory.
    pub fn parts_mut<T: 'static>(&mut self) -> Result<(&StateTables, &mut T)> {
        let backing: &mut dyn Any = &mut *self.backings[self.set];
        Ok((&self.tables, backing.downcast_mut().ok_or_else(foreign)?))
    }

    /// Begins an empty sequence.
    ///
    /// # Errors
    /// [`ModelError::State`] if the pool has no place for another.
    pub fn create(&mut self) -> Result<SequenceId> {
        let slot = self.tables.vacant(self.options.sequences)?;
        if self.tables.slots[slot as usize].generation > 0 {
            self.clear_blocks(slot)?;
        }
        let sequence = PooledSequence::new(self.tables.groups.len(), self.epoch());
        Ok(self.tables.insert(slot, sequence))
    }

    /// Ends a sequence and frees its pages.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn free(&mut self, sequence: SequenceId) -> Result<()> {
        let page_len = self.tables.page_len;
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        held.cut(0, groups, page_len);
        let slot = &mut self.tables.slots[sequence.slot()];
        slot.sequence = None;
        slot.generation = slot.generation.wrapping_add(1);
        Ok(())
    }

    /// Tokens of a sequence.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn len(&self, sequence: SequenceId) -> Result<usize> {
        Ok(self.tables.sequence(sequence)?.len)
    }

    /// Whether a sequence has no tokens.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn is_empty(&self, sequence: SequenceId) -> Result<bool> {
        Ok(self.len(sequence)? == 0)
    }

    /// Commits `tokens` tokens that a forward has written, and frees pages that have left their window; called in one
    /// place, by the pipeline.
    ///
    /// # Errors
    /// [`ModelError::State`] if they were not prepared.
    pub fn advance(&mut self, sequence: SequenceId, tokens: usize) -> Result<()> {
        let (page_len, most) = (self.tables.page_len, self.options.max_sequence_tokens);
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        let to = held.len.saturating_add(tokens);
        let ends = held.tables.iter().map(|table| (table.first + table.pages.len()) * page_len);
        let room = ends.min().unwrap_or(most).min(most);
        if to > room {
            return Err(ModelError::State(format!(
                "sequence {sequence}: {} tokens and {tokens} new ones, but rows are prepared up to {room}; prepare the step \
                 first",
                held.len
            )));
        }
        held.len = to;
        held.drop_unseen(groups, page_len);
        Ok(())
    }

    /// The fewest tokens, other than none, to which a sequence can be [`Self::truncate`]d.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn shortest(&self, sequence: SequenceId) -> Result<usize> {
        let held = self.tables.sequence(sequence)?;
        if self.tables.blocks().next().is_some() {
            return Ok(held.len);
        }
        Ok(held.shortest(&self.tables.groups, self.tables.page_len))
    }

    /// Returns to the first `len` tokens.
    ///
    /// # Errors
    /// [`ModelError::State`] if the sequence is shorter, a window has dropped rows that would be visible again, or
    /// there is per-sequence state (which cannot be truncated, only restored from a snapshot, or dropped by truncating
    /// to 0).
    pub fn truncate(&mut self, sequence: SequenceId, len: usize) -> Result<()> {
        let held = self.len(sequence)?;
        if len > held {
            return Err(ModelError::State(format!(
                "sequence {sequence}: {held} tokens cannot be truncated to {len}"
            )));
        }
        if len != 0 && len != held {
            let recurrent = self.tables.blocks().next().map(|state| self.tables.specs[state.0].name());
            if let Some(name) = recurrent {
                return Err(ModelError::State(format!(
                    "sequence {sequence}: {name} cannot go back from {held} tokens to {len}; take a snapshot before and \
                     restore it, or truncate to 0 and prefill again"
                )));
            }
            self.check_visible(sequence, len)?;
        }
        self.cut(sequence, len)?;
        if len != 0 {
            return Ok(());
        }
        let epoch = self.epoch();
        self.tables.sequence_mut(sequence)?.0.epoch = epoch;
        self.clear_blocks(sequence.slot() as u32)
    }

    /// A second sequence with the same tokens; the two share pages until one writes.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence, or no place for another.
    pub fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId> {
        let page_len = self.tables.page_len;
        let mut twin = self.tables.sequence(sequence)?.clone();
        let slot = self.tables.vacant(self.options.sequences)?;
        for state in self.tables.blocks() {
            for backing in &mut self.backings {
                backing.copy_block(state, sequence.slot() as u32, slot)?;
            }
        }
        for (group, table) in self.tables.groups.iter_mut().zip(&mut twin.tables) {
            // Pages that were prepared and hold no token belong to the other alone.
            table.pages.truncate(twin.len.div_ceil(page_len).saturating_sub(table.first));
            table.pages.iter().for_each(|page| group.share(*page));
        }
        for mark in &twin.marks {
            retain::share(&mark.retained, &mut self.tables.groups);
        }
        Ok(self.tables.insert(slot, twin))
    }

    /// A point to come back to.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence; errors of the backend.
    pub fn snapshot(&mut self, sequence: SequenceId) -> Result<Snapshot> {
        let values = self.keep_blocks(sequence)?;
        let len = self.len(sequence)?;
        let next = self.next_mark;
        let (held, _) = self.tables.sequence_mut(sequence)?;
        let mark = match held.marks.last() {
            Some(mark) if mark.tokens == len => mark.id,
            _ => {
                held.marks.push(Mark::new(len, next));
                self.next_mark += 1;
                next
            }
        };
        Ok(Snapshot { mark, len, values })
    }

    /// Returns to a snapshot of the same sequence, or of the one from which it was forked.
    ///
    /// # Errors
    /// [`ModelError::State`] if the snapshot is of another sequence, rows below it were truncated since, or a window
    /// has dropped rows that would be visible again and that were not [`Self::retain`]ed.
    pub fn restore(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<()> {
        let held = self.tables.sequence(sequence)?;
        let Some(mark) = held.marks.iter().find(|mark| snapshot.is_of(mark)) else {
            return Err(ModelError::State(format!(
                "sequence {sequence}: the snapshot of {} tokens is of another sequence, or out of date (the sequence was cut \
                 below it); truncate to 0 and prefill again",
                snapshot.len
            )));
        };
        if mark.retained.is_empty() {
            self.check_visible(sequence, snapshot.len)?;
        } else {
            self.show_retained(sequence, snapshot)?;
        }
        self.cut(sequence, snapshot.len)?;
        let block = sequence.slot() as u32;
        let mut values = snapshot.values.iter();
        for backing in &mut self.backings {
            for (state, values) in self.tables.blocks().zip(&mut values) {
                backing.put_block(state, block, values)?;
            }
        }
        Ok(())
    }

    /// Whether the memory of a sequence's tokens is lost ([`StateBacking::epoch`]): the sequence can then only be
    /// truncated to 0.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn is_lost(&self, sequence: SequenceId) -> Result<bool> {
        let held = self.tables.sequence(sequence)?;
        Ok(held.len > 0 && held.epoch != self.epoch())
    }

    /// Refuses a sequence whose memory is lost, with the reason.
    fn check_kept(&self, sequence: SequenceId) -> Result<()> {
        if !self.is_lost(sequence)? {
            return Ok(());
        }
        Err(self.loss().unwrap_or_else(|| {
            ModelError::State(format!(
                "sequence {sequence}: the memory of its tokens was lost with the stage that kept it; truncate to 0 and prefill again"
            ))
        }))
    }

    /// Why the memory of sequences was lost, if it was and the reason is known.
    pub fn loss(&self) -> Option<ModelError> {
        self.backings.first().and_then(|backing| backing.loss())
    }

    /// The number of the current memory: everything written into an earlier one is lost.
    fn epoch(&self) -> u64 {
        self.backings.first().map_or(0, |backing| backing.epoch())
    }

    /// Bytes that hold tokens of sequences now; free memory is not counted.
    pub fn bytes(&self) -> usize {
        let pages = self.tables.groups.iter().map(|group| (group.pages() - group.free()) * group.page_bytes);
        let one = pages.sum::<usize>() + self.tables.sequences() * self.tables.block_bytes;
        one * self.backings.len()
    }

    /// Refuses to return to a length at which rows are visible that a window has dropped.
    fn check_visible(&self, sequence: SequenceId, len: usize) -> Result<()> {
        let held = self.tables.sequence(sequence)?;
        let shortest = held.shortest(&self.tables.groups, self.tables.page_len);
        if len == 0 || len >= shortest {
            return Ok(());
        }
        Err(ModelError::State(format!(
            "sequence {sequence}: {} tokens cannot go back to {len}: states with a window have dropped rows that would be \
             visible again ({shortest} tokens is the lowest); truncate to 0 and prefill again",
            held.len
        )))
    }

    fn cut(&mut self, sequence: SequenceId, len: usize) -> Result<()> {
        let page_len = self.tables.page_len;
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        held.cut(len, groups, page_len);
        Ok(())
    }

    fn clear_blocks(&mut self, block: u32) -> Result<()> {
        for backing in &mut self.backings {
            for state in self.tables.blocks() {
                backing.clear_block(state, block)?;
            }
        }
        Ok(())
    }
}

fn foreign() -> ModelError {
    ModelError::Unsupported(
        "the states belong to another backend; create the pool with the one that computes".to_owned(),
    )
}
