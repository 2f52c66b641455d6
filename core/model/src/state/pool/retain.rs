//! The visible pages of windows at a snapshot, retained while there is room.

use super::group::PageGroup;
use super::sequence::PageTable;
use super::{Snapshot, StatePool};
use crate::state::SequenceId;
use crate::{ModelError, Result};

impl StatePool {
    /// Whether a state has a window.
    pub fn has_windows(&self) -> bool {
        self.tables.groups.iter().any(|group| group.window.is_some())
    }

    /// Keeps the pages that windows show at a snapshot that was just taken of the sequence, so that the sequence can
    /// return to it later; its forks keep them too. They are freed when the sequence is truncated below, or by
    /// [`Self::release`].
    ///
    /// # Errors
    /// [`ModelError::State`] if the snapshot is not of the sequence's current state.
    pub fn retain(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<()> {
        let page_len = self.tables.page_len;
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        let len = held.len;
        let mark = held.marks.last_mut().filter(|mark| snapshot.is_of(mark) && mark.tokens == len);
        let Some(mark) = mark else {
            return Err(ModelError::State(format!(
                "sequence {sequence} of {len} tokens: the rows visible at {} tokens were dropped already; retain a \
                 snapshot when it is taken",
                snapshot.len
            )));
        };
        if mark.retained.is_empty() {
            let shown = |(group, table): (&PageGroup, &PageTable)| shown(group, table, len, page_len);
            mark.retained = groups.iter().zip(&held.tables).map(shown).collect();
            share(&mark.retained, groups);
        }
        Ok(())
    }

    /// Frees the pages that [`Self::retain`] kept for a snapshot in this sequence; the snapshot itself stays.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn release(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<()> {
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        let marks = held.marks.iter_mut().filter(|mark| snapshot.is_of(mark));
        marks.for_each(|mark| mark.release(groups));
        Ok(())
    }

    /// Replaces the pages that windows show now by the retained pages of a snapshot.
    pub(super) fn show_retained(&mut self, sequence: SequenceId, snapshot: &Snapshot) -> Result<()> {
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        let Some(mark) = held.marks.iter().find(|mark| snapshot.is_of(mark)) else { return Ok(()) };
        share(&mark.retained, groups);
        let tables = groups.iter_mut().zip(&mut held.tables).zip(&mark.retained);
        for ((group, table), retained) in tables.filter(|((group, _), _)| group.window.is_some()) {
            table.pages.iter().for_each(|page| group.release(*page));
            *table = retained.clone();
        }
        Ok(())
    }
}

/// The pages of a group that a query after `len` tokens sees; empty if every page stays anyway.
fn shown(group: &PageGroup, table: &PageTable, len: usize, page_len: usize) -> PageTable {
    if group.window.is_none() {
        return PageTable::default();
    }
    let first = (group.first_visible(len) / page_len).max(table.first);
    let end = len.div_ceil(page_len).saturating_sub(table.first).min(table.pages.len());
    let pages = table.pages.get(first - table.first..end).unwrap_or_default();
    PageTable { first, pages: pages.to_vec() }
}

/// One more user of these pages.
pub(super) fn share(tables: &[PageTable], groups: &mut [PageGroup]) {
    for (group, table) in groups.iter_mut().zip(tables) {
        table.pages.iter().for_each(|page| group.share(*page));
    }
}
