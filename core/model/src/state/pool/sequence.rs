//! [`PooledSequence`]: length, page tables and marks of one sequence.

use super::group::PageGroup;

/// The record of a pool for one sequence.
#[derive(Clone, Debug)]
pub(super) struct PooledSequence {
    /// Tokens whose rows are complete in every state.
    pub(super) len: usize,
    /// By group.
    pub(super) tables: Vec<PageTable>,
    /// The memory of its rows.
    pub(super) epoch: u64,
    /// Snapshots whose rows are unchanged, by length; truncating drops those above.
    pub(super) marks: Vec<Mark>,
}

/// Pages of one sequence in one group.
#[derive(Clone, Debug, Default)]
pub(super) struct PageTable {
    /// Which page of the sequence `pages[0]` is: earlier ones have left the window.
    pub(super) first: usize,
    pub(super) pages: Vec<u32>,
}

/// A length at which a snapshot was taken.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) tokens: usize,
    pub(super) id: u64,
    /// By group: the pages that a window showed then, if they are retained; groups without a window have none.
    pub(super) retained: Vec<PageTable>,
}

impl Mark {
    pub(super) fn new(tokens: usize, id: u64) -> Self {
        Self { tokens, id, retained: Vec::new() }
    }

    /// Frees the pages that it retains.
    pub(super) fn release(&mut self, groups: &mut [PageGroup]) {
        for (group, table) in groups.iter_mut().zip(self.retained.drain(..)) {
            table.pages.iter().for_each(|page| group.release(*page));
        }
    }
}

impl PooledSequence {
    pub(super) fn new(groups: usize, epoch: u64) -> Self {
        Self { len: 0, tables: vec![PageTable::default(); groups], epoch, marks: Vec::new() }
    }

    /// The fewest tokens, other than none, for which no group has dropped rows.
    pub(super) fn shortest(&self, groups: &[PageGroup], page_len: usize) -> usize {
        let shortest = |(group, table): (&PageGroup, &PageTable)| {
            let dropped = table.first * page_len;
            // `first_visible(len) >= dropped`, solved for `len`.
            if dropped == 0 { 0 } else { dropped + group.window.unwrap_or(1) - 1 }
        };
        groups.iter().zip(&self.tables).map(shortest).max().unwrap_or(0).min(self.len)
    }

    /// Shortens the sequence to `len` tokens, whose visible rows must exist, and frees the other pages.
    pub(super) fn cut(&mut self, len: usize, groups: &mut [PageGroup], page_len: usize) {
        self.len = len;
        while let Some(mut mark) = self.marks.pop_if(|mark| mark.tokens > len) {
            mark.release(groups);
        }
        for (group, table) in groups.iter_mut().zip(&mut self.tables) {
            let keep = len.div_ceil(page_len).saturating_sub(table.first).min(table.pages.len());
            table.pages.drain(keep..).for_each(|page| group.release(page));
            if table.pages.is_empty() {
                table.first = group.first_visible(len) / page_len;
            }
        }
    }

    /// Frees the pages that no later query sees.
    pub(super) fn drop_unseen(&mut self, groups: &mut [PageGroup], page_len: usize) {
        for (group, table) in groups.iter_mut().zip(&mut self.tables) {
            let first = group.first_visible(self.len) / page_len;
            let unseen = first.saturating_sub(table.first).min(table.pages.len());
            table.pages.drain(..unseen).for_each(|page| group.release(page));
            table.first += unseen;
        }
    }
}
