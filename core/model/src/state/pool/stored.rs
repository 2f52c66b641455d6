//! Sequences in stored form: rows and snapshots that are read and restored, for state that outlives a pool.
//!
//! Rows keep the type in which they are stored, so nothing is rounded: a restored sequence computes the same.

use super::group::PageGroup;
use super::sequence::{Mark, PageTable};
use super::{Snapshot, StatePool};
use crate::state::{BlockCopy, SequenceId, StateId};
use crate::{ModelError, Result};
use std::ops::Range;

impl StatePool {
    /// Token rows of a page: the best size of one read or write is at most that.
    pub fn page_len(&self) -> usize {
        self.tables.page_len
    }

    /// State sets of every sequence.
    pub fn sets(&self) -> usize {
        self.backings.len()
    }

    /// Positions whose rows of a per-token state exist: all, or those from the first page that a window still shows.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence or there is no such sequence.
    pub fn held(&self, state: StateId, sequence: SequenceId) -> Result<Range<usize>> {
        let pages = self.tables.pages(state, sequence)?;
        let len = self.len(sequence)?;
        Ok((pages.first_page * pages.page_len).min(len)..len)
    }

    /// Bytes of a row of a per-token state.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence.
    pub fn row_bytes(&self, state: StateId) -> Result<usize> {
        let elements = self.tables.spec(state)?.elements();
        let bytes = self.tables.dtype(state)?.row_bytes(elements);
        bytes.ok_or_else(|| {
            ModelError::State(format!("{}: the size of its rows overflows", self.specs()[state.0].name()))
        })
    }

    /// Rows of a per-token state, one after the other, as they are stored.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence, or rows are not [`Self::held`]; errors of the backend.
    pub fn read_rows(
        &self,
        state: StateId,
        sequence: SequenceId,
        positions: Range<usize>,
    ) -> Result<Vec<u8>> {
        self.check_kept(sequence)?;
        let pages = self.tables.pages(state, sequence)?;
        let mut bytes = Vec::new();
        for run in pages.runs(positions)? {
            bytes.append(&mut self.backings[self.set].read_rows(state, run)?);
        }
        Ok(bytes)
    }

    /// Writes rows that [`Self::read_rows`] returned to the positions from `position` on.
    ///
    /// # Errors
    /// [`ModelError::State`] if the state is per sequence, or has no pages there; [`ModelError::Shape`] if the bytes
    /// are not whole rows; errors of the backend.
    pub fn write_rows(
        &mut self,
        state: StateId,
        sequence: SequenceId,
        position: usize,
        bytes: &[u8],
    ) -> Result<()> {
        let row = self.row_bytes(state)?;
        if row == 0 || !bytes.len().is_multiple_of(row) {
            return Err(ModelError::Shape {
                what: format!("stored rows of {}", self.specs()[state.0].name()),
                expected: format!("whole rows of {row} bytes"),
                found: format!("{} bytes", bytes.len()),
            });
        }
        self.check_kept(sequence)?;
        let pages = self.tables.pages(state, sequence)?;
        let mut rest = bytes;
        for run in pages.runs(position..position + bytes.len() / row)? {
            let (now, later) = rest.split_at(run.len * row);
            self.backings[self.set].write_rows(state, run, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Turns an empty sequence into one of `tokens` tokens, whose rows and blocks must be written next: of each
    /// per-token state the rows from `first[state]` on, as [`Self::held`] returned it (for other states the number is
    /// ignored).
    ///
    /// # Errors
    /// [`ModelError::State`] if the sequence has tokens or is too long, its rows begin inside a page of this pool or
    /// after the first visible one, or there are not enough pages; the sequence is then empty.
    pub fn refill(&mut self, sequence: SequenceId, tokens: usize, first: &[usize]) -> Result<()> {
        let (page_len, most) = (self.tables.page_len, self.options.max_sequence_tokens);
        if !self.is_empty(sequence)? || tokens > most || first.len() != self.specs().len() {
            return Err(ModelError::State(format!(
                "sequence {sequence}: {tokens} stored tokens of {} states, for an empty sequence of at most {most} tokens and \
                 {} states; make the context large enough (-c {})",
                first.len(),
                self.specs().len(),
                tokens.div_ceil(256).saturating_mul(256)
            )));
        }
        self.cut(sequence, 0)?;
        let epoch = self.epoch();
        let (held, groups) = self.tables.sequence_mut(sequence)?;
        let starts: Vec<usize> =
            groups.iter().map(|group| start_of(group, first, tokens, page_len)).collect::<Result<_>>()?;
        for ((group, table), start) in groups.iter_mut().zip(&mut held.tables).zip(starts) {
            fill(group, table, start..tokens.div_ceil(page_len));
        }
        (held.len, held.epoch) = (tokens, epoch);
        Ok(())
    }

    /// Whether pages are free for a [`Self::refill`] of so many tokens and `rows` more after them.
    pub fn can_refill(&self, tokens: usize, first: &[usize], rows: usize) -> bool {
        let (page_len, end) = (self.tables.page_len, tokens.saturating_add(rows));
        self.tables.groups.iter().all(|group| {
            let start = group.states.iter().filter_map(|state| first.get(state.0)).min();
            let start = start.map_or(0, |start| start / page_len);
            end.div_ceil(page_len).saturating_sub(start) <= group.free()
        })
    }

    /// The copies that a snapshot of this pool keeps, set by set, of each per-sequence state in the order of the ids.
    ///
    /// # Errors
    /// A snapshot of another pool; errors of the backend.
    pub fn copies(&self, snapshot: &Snapshot) -> Result<Vec<Vec<f32>>> {
        let states = self.tables.blocks().count();
        let of = |(at, kept): (usize, &BlockCopy)| match self.backings.get(at / states.max(1)) {
            Some(backing) => backing.kept_values(kept),
            None => Err(ModelError::State("the snapshot has more states than the pool".to_owned())),
        };
        snapshot.values.iter().enumerate().map(of).collect()
    }

    /// A snapshot that was taken of the same tokens elsewhere, with its copies ([`Self::copies`]); shorter snapshots
    /// must come first.
    ///
    /// # Errors
    /// [`ModelError::State`] if the sequence has fewer tokens or a longer snapshot, or the copies do not match its
    /// states.
    pub fn put_snapshot(
        &mut self,
        sequence: SequenceId,
        tokens: usize,
        values: Vec<Vec<f32>>,
    ) -> Result<Snapshot> {
        let sizes: Vec<usize> = self.tables.blocks().map(|state| self.specs()[state.0].elements()).collect();
        let wanted = sizes.len() * self.sets();
        let fits =
            values.len() == wanted && values.iter().zip(sizes.iter().cycle()).all(|(v, n)| v.len() == *n);
        let next = self.next_mark;
        let (held, _) = self.tables.sequence_mut(sequence)?;
        let after = held.marks.last().map_or(0, |mark| mark.tokens);
        if !fits || tokens > held.len || tokens < after {
            return Err(ModelError::State(format!(
                "sequence {sequence} of {} tokens: a stored snapshot of {tokens} tokens and {} blocks does not fit \
                 (expected {wanted} blocks and at least {after} tokens)",
                held.len,
                values.len()
            )));
        }
        let mark = match held.marks.last().filter(|mark| mark.tokens == tokens) {
            Some(mark) => mark.id,
            None => {
                held.marks.push(Mark::new(tokens, next));
                self.next_mark += 1;
                next
            }
        };
        let values = values.into_iter().map(BlockCopy::Values).collect();
        Ok(Snapshot { mark, len: tokens, values })
    }
}

/// The page that a group's stored rows begin on.
fn start_of(group: &PageGroup, first: &[usize], tokens: usize, page_len: usize) -> Result<usize> {
    let mut starts = group.states.iter().map(|state| first[state.0]);
    let start = starts.next().unwrap_or(0);
    if starts.any(|other| other != start) || !start.is_multiple_of(page_len) {
        return Err(ModelError::State(format!(
            "stored rows begin at position {start}, inside a page of {page_len} tokens; use the context they were stored with"
        )));
    }
    if start > group.first_visible(tokens) {
        return Err(ModelError::State(format!(
            "stored rows begin at position {start}, but those from {} on are visible after {tokens} tokens; store them again",
            group.first_visible(tokens)
        )));
    }
    let pages = tokens.div_ceil(page_len).saturating_sub(start / page_len);
    if pages > group.free() {
        return Err(ModelError::State(format!(
            "{tokens} stored tokens need {pages} pages of {page_len} tokens, but {} of {} are free; free a sequence, or make the \
             pool larger",
            group.free(),
            group.pages()
        )));
    }
    Ok(start / page_len)
}

/// Gives an empty table these pages of its sequence.
fn fill(group: &mut PageGroup, table: &mut PageTable, pages: Range<usize>) {
    table.first = pages.start;
    table.pages = pages.map_while(|_| group.take()).collect();
}
