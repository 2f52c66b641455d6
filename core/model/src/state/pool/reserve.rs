//! Room for the rows of a step: [`StatePool::prepare`].

use super::StatePool;
use super::group::PageGroup;
use super::sequence::PageTable;
use crate::layout::SequenceLayout;
use crate::state::{SequenceId, StateBacking};
use crate::{ModelError, Result};
use std::ops::Range;

impl StatePool {
    /// Makes room for the rows of a step; calling it again for the same step changes nothing.
    ///
    /// # Errors
    /// As [`Self::reserve`], for the first sequence that fails.
    pub fn prepare(&mut self, layout: &SequenceLayout) -> Result<()> {
        let mut parts = layout.sequences().iter();
        parts.try_for_each(|part| self.reserve(part.sequence, part.first_position, part.rows.len()))
    }

    /// Makes room for `rows` rows of a sequence from `first_position` on, which must be its end. Room that was reserved
    /// for more rows before is freed.
    ///
    /// # Errors
    /// [`ModelError::State`] if the sequence ends elsewhere, would exceed the limit of a sequence, or there are not
    /// enough pages; the sequence is then unchanged.
    pub fn reserve(&mut self, sequence: SequenceId, first_position: usize, rows: usize) -> Result<()> {
        let (page_len, most) = (self.tables.page_len, self.options.max_sequence_tokens);
        let (sequences, epoch) = (self.tables.sequences(), self.epoch());
        self.check_kept(sequence)?;
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        if held.len == 0 {
            held.epoch = epoch;
        }
        let tokens = held.len..held.len.saturating_add(rows);
        if first_position != tokens.start {
            return Err(ModelError::State(format!(
                "sequence {sequence}: a step begins at position {first_position}, but the sequence has {} tokens; steps \
                 follow each other without gaps (truncate the sequence to compute tokens again)",
                tokens.start
            )));
        }
        if tokens.end > most {
            return Err(ModelError::State(format!(
                "sequence {sequence}: {} tokens do not fit into a context of {most}; end the sequence, or create the \
                 pool with a longer context",
                tokens.end
            )));
        }
        for (group, table) in groups.iter().zip(&held.tables) {
            let needed = Need::of(table, group, &tokens, page_len).new;
            if needed > group.free() {
                return Err(lacking(sequence, &tokens, needed, [page_len, sequences], group));
            }
        }
        for (group, table) in groups.iter_mut().zip(&mut held.tables) {
            let need = Need::of(table, group, &tokens, page_len);
            if let Some(index) = need.copied {
                table.pages[index] = own_copy(table.pages[index], group, &mut self.backings)?;
            }
            table.pages.drain(need.pages.min(table.pages.len())..).for_each(|page| group.release(page));
            while table.pages.len() < need.pages {
                let Some(page) = group.take() else { break };
                table.pages.push(page);
            }
        }
        Ok(())
    }

    /// Whether pages are free for the next `rows` rows of a sequence.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn has_room(&self, sequence: SequenceId, rows: usize) -> Result<bool> {
        self.fits(sequence, rows, |_| true)
    }

    /// Whether pages of states with windows are free for the next `rows` rows of a sequence.
    ///
    /// # Errors
    /// [`ModelError::State`] if there is no such sequence.
    pub fn has_window_room(&self, sequence: SequenceId, rows: usize) -> Result<bool> {
        self.fits(sequence, rows, |group| group.window.is_some())
    }

    fn fits(&self, sequence: SequenceId, rows: usize, counts: impl Fn(&PageGroup) -> bool) -> Result<bool> {
        let held = self.tables.sequence(sequence)?;
        let tokens = held.len..held.len.saturating_add(rows);
        let fits = |(group, table): (&PageGroup, &PageTable)| {
            Need::of(table, group, &tokens, self.tables.page_len).new <= group.free()
        };
        Ok(self.tables.groups.iter().zip(&held.tables).filter(|(group, _)| counts(group)).all(fits))
    }

    /// Pages that hold tokens of sequences, and pages that are free: of all groups of states together.
    pub fn pages(&self) -> (usize, usize) {
        let free: usize = self.tables.groups.iter().map(PageGroup::free).sum();
        (self.tables.groups.iter().map(PageGroup::pages).sum::<usize>() - free, free)
    }

    /// Tokens that the free pages have room for, without those of windows; the largest number if no state has rows for
    /// every token.
    pub fn free_tokens(&self) -> usize {
        let groups = self.tables.groups.iter().filter(|group| group.window.is_none());
        let free = groups.map(|group| group.free().saturating_mul(self.tables.page_len)).min();
        free.unwrap_or(usize::MAX)
    }
}

/// The pages that a step needs from a group.
struct Need {
    /// Pages the table then has.
    pages: usize,
    /// Index of a page that is shared and about to be written into.
    copied: Option<usize>,
    /// Free pages this takes.
    new: usize,
}

impl Need {
    fn of(table: &PageTable, group: &PageGroup, tokens: &Range<usize>, page_len: usize) -> Self {
        let pages = tokens.end.div_ceil(page_len).saturating_sub(table.first);
        // Rows of a full page are never written again: only the page on which the sequence ends can be shared.
        let last = (tokens.start / page_len).checked_sub(table.first).filter(|_| !tokens.is_empty());
        let copied = last.filter(|&last| table.pages.get(last).is_some_and(|page| group.is_shared(*page)));
        let new = pages.saturating_sub(table.pages.len()) + usize::from(copied.is_some());
        Self { pages, copied, new }
    }
}

/// A copy of a shared page for this sequence alone.
fn own_copy(page: u32, group: &mut PageGroup, backings: &mut [Box<dyn StateBacking>]) -> Result<u32> {
    let copy = group.take().ok_or_else(|| ModelError::State("no free page for a copy".to_owned()))?;
    for backing in backings {
        for state in &group.states {
            if let Err(error) = backing.copy_page(*state, page, copy) {
                group.release(copy);
                return Err(error);
            }
        }
    }
    group.release(page);
    Ok(copy)
}

fn lacking(
    sequence: SequenceId,
    tokens: &Range<usize>,
    needed: usize,
    [page_len, sequences]: [usize; 2],
    group: &PageGroup,
) -> ModelError {
    let window = group.window.map_or_else(String::new, |window| format!(" for a window of {window}"));
    ModelError::State(format!(
        "sequence {sequence}: {} tokens need {needed} more pages of {page_len} tokens{window}, but {} of {} are free ({sequences} \
         sequences use the others); free a sequence, take smaller steps, or create a larger pool",
        tokens.end,
        group.free(),
        group.pages()
    ))
}
