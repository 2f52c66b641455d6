//! Pages for the rows of a step: who gives some up where they run out.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{Sequence, Wanted};

impl Scheduler {
    /// Makes room for the next `rows` rows of a sequence: kept sequences go first, then the state of less urgent ones, the
    /// least urgent first. Gives `false` where more urgent ones hold the pages and go on: they will give them back. A
    /// sequence that begins beside those has room for all it is to compute, or it would lose what it has again and again.
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
        let (id, held) = (sequences[index].id, sequences[index].held);
        let alone = held + rows <= self.pool.options().capacity_tokens;
        let rank = sequences[index].urgency.rank();
        let others = sequences.iter().any(|other| other.pending() > 0 && other.urgency.rank() < rank);
        let whole = if held == 0 && others { sequences[index].pending() } else { 0 };
        while alone && !(self.pool.has_room(id, rows)? && self.pool.free_tokens() >= whole) {
            if self.evict(None)? {
                continue;
            }
            match victim(sequences, index) {
                Some(victim) => self.preempt(sequences[victim])?,
                None if others => return Ok(false),
                None => break,
            }
        }
        self.pool.reserve(id, held, rows)?;
        Ok(true)
    }

    /// Gives the state of a sequence up; the next steps compute it again, from the same tokens.
    ///
    /// A snapshot would be as large as what is to be freed, in the same memory: on the CPU a larger pool is better. Where
    /// a prompt is something else than what was generated (a choice for a whole prompt, hooks of one phase) it is computed
    /// again as it was, and the tokens after it one by one.
    fn preempt(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        self.counts.preemptions += 1;
        self.counts.preempted_tokens += sequence.held as u64;
        let tokens = std::mem::take(&mut sequence.tokens);
        let went = self.go_back(sequence, 0);
        sequence.tokens = tokens;
        sequence.preemptions += 1;
        if self.is_uniform() {
            sequence.prompt = sequence.tokens.len();
        }
        went
    }
}

/// The least urgent other sequence that holds pages, if it is less urgent than this one.
fn victim(sequences: &[&mut Sequence], index: usize) -> Option<usize> {
    let own = sequences[index].urgency.rank();
    let others = (0..sequences.len()).filter(|&other| other != index);
    let weaker = others.filter(|&other| {
        let sequence = &sequences[other];
        sequence.held > 0 && sequence.wanted == Wanted::Last && sequence.urgency.rank() > own
    });
    weaker.max_by_key(|&other| sequences[other].urgency.rank())
}
