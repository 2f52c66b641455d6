//! Going back: to a common prefix, after a failed step, to a snapshot of a recurrent state.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::Sequence;
use std::sync::Arc;

/// Snapshots a sequence keeps; each is a copy of its recurrent states.
pub(crate) const SNAPSHOTS: usize = 4;

impl Scheduler {
    /// Goes back to `len` tokens, or to as many fewer as the states allow: windows may have dropped what would be visible
    /// again, and recurrent states know only their snapshots. What was not fed is forgotten.
    pub(super) fn go_back(&mut self, sequence: &mut Sequence, len: usize) -> Result<(), GenerateError> {
        // What lay in a stage that failed is gone as a whole.
        let len = if self.pool.is_lost(sequence.id)? { 0 } else { len.min(sequence.held) };
        let reached = if len == sequence.held {
            len
        } else if self.engine.is_recurrent() {
            return self.restore(sequence, len);
        } else if len >= self.pool.shortest(sequence.id)? {
            len
        } else {
            0
        };
        self.pool.truncate(sequence.id, reached)?;
        sequence.held = reached;
        sequence.tokens.truncate(reached);
        Ok(())
    }

    /// After a failed step: rows past the length do not count, but a recurrent state may have been written over. Gives the
    /// error back, or the one that the recovery met.
    pub(super) fn recover(&mut self, sequence: &mut Sequence, error: GenerateError) -> GenerateError {
        let held = sequence.held;
        let lost = self.pool.is_lost(sequence.id).unwrap_or(false);
        let recovered = if self.engine.is_recurrent() && !lost {
            self.restore(sequence, held)
        } else {
            self.go_back(sequence, held)
        };
        recovered.err().unwrap_or(error)
    }

    /// Keeps a point that a recurrent sequence can go back to. The newest two stay (an answer is given again from before
    /// the prompt's last chunk); the others are spread evenly.
    pub(super) fn remember(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        if !self.engine.is_recurrent() {
            return Ok(());
        }
        let kept = &mut sequence.snapshots;
        kept.push(Arc::new(self.pool.snapshot(sequence.id)?));
        if kept.len() > SNAPSHOTS {
            let gap = |index: &usize| {
                let before = index.checked_sub(1).map_or(0, |before| kept[before].tokens());
                kept[index + 1].tokens() - before
            };
            if let Some(closest) = (0..kept.len() - 2).min_by_key(gap) {
                kept.remove(closest);
            }
        }
        Ok(())
    }

    /// Restores the longest snapshot of at most `len` tokens that still holds, else nothing.
    fn restore(&mut self, sequence: &mut Sequence, len: usize) -> Result<(), GenerateError> {
        let mut reached = 0;
        while let Some(snapshot) = sequence.snapshots.last() {
            if snapshot.tokens() <= len && self.pool.restore(sequence.id, snapshot).is_ok() {
                reached = snapshot.tokens();
                break;
            }
            sequence.snapshots.pop();
        }
        if reached == 0 {
            self.pool.truncate(sequence.id, 0)?;
        }
        sequence.held = reached;
        sequence.tokens.truncate(reached);
        Ok(())
    }
}
