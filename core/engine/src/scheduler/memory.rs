//! Pages for the rows of a step: who gives some up where they run out.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{LogitRows, Sequence};
use menagerie_model::StatePool;

impl Scheduler {
    /// Makes room for the next `rows` rows of a sequence, and puts back what was set aside of it. Points that windows could
    /// go back to are given up first, then kept sequences, then the state of less urgent ones, the least urgent first. Gives
    /// `false` where more urgent ones hold the pages and go on: they will give them back. A sequence that begins beside those
    /// has room for all it is to compute, or it would lose what it has again and again.
    ///
    /// Nobody gives pages to a less urgent sequence, and time does not make a sequence more urgent here: the most urgent one
    /// of those that run always goes on.
    ///
    /// # Errors
    /// The pool has no room for the sequence alone.
    pub(super) fn make_room(
        &mut self,
        sequences: &mut [&mut Sequence],
        index: usize,
        rows: usize,
    ) -> Result<bool, GenerateError> {
        let (id, held, reached) =
            (sequences[index].id, sequences[index].computed, sequences[index].reached());
        let alone = reached + rows <= self.pool.options().capacity_tokens;
        let rank = sequences[index].urgency.rank();
        let others = sequences.iter().any(|other| other.pending() > 0 && other.urgency.rank() < rank);
        let whole = if held == 0 && others { sequences[index].pending() } else { 0 };
        while alone && !(self.fits(sequences[index], rows)? && self.pool.free_tokens() >= whole) {
            if self.release_points(sequences, index, rows)? || self.evict(None)? {
                continue;
            }
            match victim(sequences, index) {
                Some(victim) => {
                    let aside = sequences.iter().filter_map(|sequence| sequence.swapped.as_ref());
                    let taken = aside.map(|aside| aside.bytes()).sum();
                    self.preempt(sequences[victim], taken)?;
                }
                None if others => return Ok(false),
                None => break,
            }
        }
        if !self.swap_in(sequences[index]) {
            return Ok(false);
        }
        self.pool.reserve(id, reached, rows)?;
        Ok(true)
    }

    /// Whether pages are free for the next rows of a sequence, and for what is set aside of it.
    fn fits(&self, sequence: &Sequence, rows: usize) -> Result<bool, GenerateError> {
        match &sequence.swapped {
            Some(aside) => Ok(self.pool.can_refill(aside.tokens(), &aside.first(), rows)),
            None => Ok(self.pool.has_room(sequence.id, rows)?),
        }
    }

    /// Gives up the points of one sequence that windows could go back to, if pages of windows are what is lacking; `false` if
    /// there are none.
    fn release_points(
        &mut self,
        sequences: &mut [&mut Sequence],
        index: usize,
        rows: usize,
    ) -> Result<bool, GenerateError> {
        let next = &sequences[index];
        if next.swapped.is_none() && self.pool.has_window_room(next.id, rows)? {
            return Ok(false);
        }
        let running = sequences.iter_mut().map(|sequence| &mut **sequence);
        let Some(sequence) = self.cached.iter_mut().chain(running).find(|one| one.retains) else {
            return Ok(false);
        };
        release(&mut self.pool, sequence)?;
        if !self.engine.is_recurrent() {
            sequence.snapshots.clear();
        }
        Ok(true)
    }

    /// Gives the state of a sequence up. It is set aside, where [`Self::swap_out`] finds that worth it (`taken` bytes are
    /// set aside of others); else the next steps compute it again, from the same tokens. Where a prompt is something else than
    /// what was generated (a choice for a whole prompt, hooks of one phase) it is then computed again as it was, and the
    /// tokens after it one by one.
    fn preempt(&mut self, sequence: &mut Sequence, taken: usize) -> Result<(), GenerateError> {
        let aside = self.swap_out(sequence, taken).map(Box::new);
        let held = sequence.computed as u64;
        let tokens = std::mem::take(&mut sequence.tokens);
        let went = self.go_back(sequence, 0);
        sequence.tokens = tokens;
        sequence.preemptions += 1;
        self.counts.preemptions += 1;
        if went.is_ok() && aside.is_some() {
            sequence.swapped = aside;
            sequence.swaps += 1;
            self.counts.set_aside += 1;
            self.counts.set_aside_tokens += held;
            return Ok(());
        }
        self.counts.preempted_tokens += held;
        if self.is_uniform() {
            sequence.prompt = sequence.tokens.len();
        }
        went
    }
}

/// Gives back the pages that are kept for points that windows have left.
pub(super) fn release(pool: &mut StatePool, sequence: &mut Sequence) -> Result<(), GenerateError> {
    sequence.retains = false;
    for snapshot in &sequence.snapshots {
        pool.release(sequence.id, snapshot)?;
    }
    Ok(())
}

/// The least urgent other sequence that holds pages, if it is less urgent than this one.
fn victim(sequences: &[&mut Sequence], index: usize) -> Option<usize> {
    let own = sequences[index].urgency.rank();
    let others = (0..sequences.len()).filter(|&other| other != index);
    let weaker = others.filter(|&other| {
        let sequence = &sequences[other];
        sequence.computed > 0 && sequence.logit_rows == LogitRows::Last && sequence.urgency.rank() > own
    });
    weaker.max_by_key(|&other| sequences[other].urgency.rank())
}
