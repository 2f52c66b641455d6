//! [`Placement`]: the pages and block of a sequence, for a pool in another process that keeps some of the same states.

use super::StatePool;
use super::sequence::{PageTable, PooledSequence};
use super::tables::SequenceSlot;
use crate::state::{SequenceId, StateBacking, StateId};
use crate::{ModelError, Result};

/// Where the states of a sequence are in a step, as decided by the pool that assigns pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Its place among the sequences, which is its block in every per-sequence state.
    pub slot: u32,
    /// Tokens it holds.
    pub tokens: usize,
    /// Rows of the step.
    pub rows: usize,
    /// Its pages, by group of equal windows ([`StatePool::windows`]).
    pub tables: Vec<PlacedPages>,
}

/// Pages of a sequence in the states of one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPages {
    /// Which page of the sequence the first one is.
    pub first_page: usize,
    /// Numbers of the pages.
    pub pages: Vec<u32>,
}

impl StatePool {
    /// The windows of the per-token states, each once; absent = all tokens stay visible.
    pub fn windows(&self) -> Vec<Option<usize>> {
        self.tables.groups.iter().map(|group| group.window).collect()
    }

    /// The placement of a sequence, with the room for `rows` rows that was reserved before ([`StatePool::reserve`]).
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn placement(&self, sequence: SequenceId, rows: usize) -> Result<Placement> {
        let held = self.tables.sequence(sequence)?;
        let pages = |table: &PageTable| PlacedPages { first_page: table.first, pages: table.pages.clone() };
        let tables = held.tables.iter().map(pages).collect();
        Ok(Placement { slot: sequence.slot() as u32, tokens: held.len, rows, tables })
    }

    /// Places sequences as the other pool decided, replacing all that were here; `windows` are the groups by which it
    /// numbers pages. From then on this pool assigns nothing to them.
    ///
    /// # Errors
    /// [`ModelError::State`] for places, pages or windows that this pool does not have.
    pub fn place(&mut self, placements: &[Placement], windows: &[Option<usize>]) -> Result<Vec<SequenceId>> {
        let mut numbers = Vec::with_capacity(self.tables.groups.len());
        for group in &self.tables.groups {
            let number = windows.iter().position(|window| *window == group.window);
            numbers.push(number.ok_or_else(|| {
                ModelError::State(format!("the step has no pages for states with window {:?}", group.window))
            })?);
        }
        self.tables.slots.clear();
        let mut ids = Vec::with_capacity(placements.len());
        for placement in placements {
            let sequence = self.placed(placement, &numbers)?;
            let slot = placement.slot as usize;
            while self.tables.slots.len() <= slot {
                self.tables.slots.push(SequenceSlot { generation: 0, sequence: None });
            }
            if self.tables.slots[slot].sequence.is_some() {
                return Err(ModelError::State(format!("two sequences of a step have slot {slot}")));
            }
            ids.push(self.tables.insert(placement.slot, sequence));
        }
        Ok(ids)
    }

    /// A sequence with the tables of a placement, whose groups have these numbers there.
    fn placed(&self, placement: &Placement, numbers: &[usize]) -> Result<PooledSequence> {
        let Placement { slot, tokens, rows, tables } = placement;
        let wrong =
            |what: &str| ModelError::State(format!("slot {slot} of a step with {tokens} tokens: {what}"));
        if *slot as usize >= self.options.sequences {
            return Err(wrong("the pool has fewer slots"));
        }
        let end = tokens.checked_add(*rows).filter(|end| *end <= self.options.max_sequence_tokens);
        let end = end.ok_or_else(|| wrong("more rows than a sequence may have"))?;
        let mut sequence = PooledSequence::new(0, self.epoch());
        sequence.len = *tokens;
        for (group, number) in self.tables.groups.iter().zip(numbers) {
            let table = tables.get(*number).ok_or_else(|| wrong("a page table is missing"))?;
            if table.pages.iter().any(|page| *page as usize >= group.pages()) {
                return Err(wrong("a page number is past the last page"));
            }
            let needed = end.div_ceil(self.tables.page_len).checked_sub(table.first_page);
            if needed != Some(table.pages.len()) {
                return Err(wrong("its pages do not end where its rows end"));
            }
            sequence.tables.push(PageTable { first: table.first_page, pages: table.pages.clone() });
        }
        Ok(sequence)
    }
}

impl StatePool {
    /// The memory of a state, for a pool that receives changes; `places` are pages of a per-token state, or blocks of a
    /// per-sequence one.
    ///
    /// # Errors
    /// [`ModelError::State`] for a state or places that this pool does not have.
    pub fn memory_of(&mut self, state: StateId, places: &[u32]) -> Result<&mut dyn StateBacking> {
        let group = self.tables.group_of(state)?;
        let most = group.map_or(self.options.sequences, |group| self.tables.groups[group].pages());
        if let Some(place) = places.iter().find(|place| **place as usize >= most) {
            return Err(ModelError::State(format!("place {place} of state {}, which has {most}", state.0)));
        }
        let set = self.set;
        Ok(&mut *self.backings[set])
    }
}
