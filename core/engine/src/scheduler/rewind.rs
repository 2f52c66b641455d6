//! Going back: to a common prefix, after a failed step, to a snapshot of a recurrent state.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{SNAPSHOTS, Sequence};
use std::sync::Arc;

/// How far before the end of a prompt a point is kept for others that end otherwise, and how many tokens are computed at
/// least for such a point: each makes a smaller step.
const SNAPSHOT_POSITIONS: [(usize, usize); 2] = [(256, 1024), (64, 256)];

impl Scheduler {
    /// Goes back to `len` tokens, or to as many fewer as the states allow: windows may have dropped what would be visible
    /// again, and recurrent states know only their snapshots. What was not fed is forgotten.
    pub(crate) fn go_back(&mut self, sequence: &mut Sequence, len: usize) -> Result<(), GenerateError> {
        // What lay in a stage that failed is gone as a whole.
        let len = if self.pool.is_lost(sequence.id)? { 0 } else { len.min(sequence.computed) };
        sequence.swapped = None;
        let stays = len == sequence.computed || len == 0;
        if !stays && (self.engine.is_recurrent() || len < self.pool.shortest(sequence.id)?) {
            return self.restore(sequence, len);
        }
        self.pool.truncate(sequence.id, len)?;
        sequence.snapshots.retain(|snapshot| snapshot.tokens() <= len);
        sequence.computed = len;
        sequence.tokens.truncate(len);
        sequence.went_back();
        Ok(())
    }

    /// Notes where a prompt that others may begin like keeps points to go on from, for states that cannot go back anywhere:
    /// near its end, since what differs is more often a question than what is asked about.
    pub(crate) fn set_snapshot_positions(&self, sequence: &mut Sequence) {
        let (held, end) = (sequence.computed, sequence.tokens.len());
        let far =
            SNAPSHOT_POSITIONS.iter().filter(|(before, least)| end.saturating_sub(held) >= before + least);
        sequence.snapshot_positions = far.map(|(before, _)| end - before).collect();
    }

    /// After a failed step: rows past the length do not count, but a recurrent state may have been written over. Gives the
    /// error back, or the one that the recovery met.
    pub(super) fn recover(&mut self, sequence: &mut Sequence, error: GenerateError) -> GenerateError {
        let held = sequence.computed;
        self.recover_to(sequence, held, error)
    }

    /// The same where nothing that the sequence holds from the token `from` on is usable.
    pub(super) fn recover_to(
        &mut self,
        sequence: &mut Sequence,
        from: usize,
        error: GenerateError,
    ) -> GenerateError {
        let held = sequence.computed.min(from);
        let lost = self.pool.is_lost(sequence.id).unwrap_or(false);
        let recovered = if self.engine.is_recurrent() && !lost {
            self.restore(sequence, held)
        } else {
            self.go_back(sequence, held)
        };
        recovered.err().unwrap_or(error)
    }

    /// Keeps a point that a recurrent sequence can go back to, and where sequences share what they begin with also one with
    /// windows. The newest two stay (an answer is given again from before the prompt's last chunk), and the snapshot_positions; the
    /// others are spread evenly.
    pub(super) fn take_snapshot(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        let windows = self.needs_boundaries() && self.pool.has_windows();
        if !self.engine.is_recurrent() && !windows {
            return Ok(());
        }
        let snapshot = self.pool.snapshot(sequence.id)?;
        if windows {
            self.pool.retain(sequence.id, &snapshot)?;
            sequence.retains = true;
        }
        let (kept, snapshot_positions) = (&mut sequence.snapshots, &sequence.snapshot_positions);
        kept.push(Arc::new(snapshot));
        if kept.len() > SNAPSHOTS {
            let gap = |index: &usize| {
                let before = index.checked_sub(1).map_or(0, |before| kept[before].tokens());
                kept[index + 1].tokens() - before
            };
            let spread =
                (0..kept.len() - 2).filter(|&index| !snapshot_positions.contains(&kept[index].tokens()));
            if let Some(closest) = spread.min_by_key(gap) {
                let gone = kept.remove(closest);
                self.pool.release(sequence.id, &gone)?;
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
        sequence.computed = reached;
        sequence.tokens.truncate(reached);
        sequence.went_back();
        Ok(())
    }
}
