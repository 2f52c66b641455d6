//! Pages for the rows of a step, and preemption if there are not enough.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{LogitRows, Sequence};
use menagerie_model::StatePool;

impl Scheduler {
    /// Reserves pages for the next `rows` rows of a sequence, and swaps its state in if it was swapped out. To get
    /// pages, it releases snapshots of windowed layers first, then cached sequences, then it preempts the least urgent
    /// running ones. Returns `false` if more urgent sequences hold the pages; the sequence then waits for them. While
    /// more urgent sequences run, an empty sequence starts only if all of its pending tokens fit; otherwise it would
    /// be preempted again and again.
    ///
    /// A sequence never gives pages to a less urgent one, and waiting does not make a sequence more urgent here. So
    /// the most urgent running sequence always continues. It waits for less urgent ones only while they are in flight.
    ///
    /// # Errors
    /// The sequence does not fit into the pool even alone.
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
                None if others || sequences.iter().any(|other| other.in_flight) => return Ok(false),
                None => break,
            }
        }
        if !self.swap_in(sequences[index]) {
            return Ok(false);
        }
        self.pool.reserve(id, reached, rows)?;
        Ok(true)
    }

    /// Whether there are free pages for the next rows of a sequence and for its swapped state.
    fn fits(&self, sequence: &Sequence, rows: usize) -> Result<bool, GenerateError> {
        match &sequence.swapped {
            Some(aside) => Ok(self.pool.can_refill(aside.tokens(), &aside.first(), rows)),
            None => Ok(self.pool.has_room(sequence.id, rows)?),
        }
    }

    /// Releases the snapshots of windowed layers of one sequence, if pages of windows are missing. Returns `false` if
    /// nothing was released.
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
        let Some(sequence) = self.cached.iter_mut().chain(running).find(|one| one.retains && !one.in_flight)
        else {
            return Ok(false);
        };
        release(&mut self.pool, sequence)?;
        if !self.engine.is_recurrent() {
            sequence.snapshots.clear();
        }
        Ok(true)
    }

    /// Preempts a sequence: its state is swapped out if [`Self::swap_out`] decides so (`taken` bytes are used by other
    /// sequences); otherwise later steps compute it again from its tokens. If prompt rows differ from generated rows
    /// (mixtures that route whole prompts, hooks of one phase), the prompt is computed again as a prompt, and the
    /// tokens after it one by one.
    fn preempt(&mut self, sequence: &mut Sequence, taken: usize) -> Result<(), GenerateError> {
        let aside = self.swap_out(sequence, taken).map(Box::new);
        let held = sequence.computed as u64;
        let tokens = std::mem::take(&mut sequence.tokens);
        let went = self.rewind(sequence, 0);
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

/// Frees the pages that are kept for snapshots of windowed layers.
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
        let resumes = sequence.logit_rows == LogitRows::Last || sequence.is_scored;
        sequence.computed > 0 && !sequence.in_flight && resumes && sequence.urgency.rank() > own
    });
    weaker.max_by_key(|&other| sequences[other].urgency.rank())
}
