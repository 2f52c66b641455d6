//! Rewinding a sequence: to a prefix, after a failed step, to a snapshot of a recurrent state.

use super::Scheduler;
use crate::error::GenerateError;
use crate::sequence::{SNAPSHOTS, Sequence};
use std::sync::Arc;

/// Snapshots near the end of a prompt: the distance from the end, and the fewest tokens to compute for such a
/// snapshot. Each makes a step smaller.
const SNAPSHOT_POSITIONS: [(usize, usize); 2] = [(256, 1024), (64, 256)];

impl Scheduler {
    /// Rewinds to `len` tokens, or to fewer if the states do not allow it: windowed layers may have dropped rows that
    /// would be visible again, and recurrent states have only their snapshots. Pending tokens are dropped.
    pub(crate) fn rewind(&mut self, sequence: &mut Sequence, len: usize) -> Result<(), GenerateError> {
        self.settle(sequence)?;
        // The state in a failed stage is lost as a whole.
        let len = if self.pool.is_lost(sequence.id)? { 0 } else { len.min(sequence.computed) };
        sequence.swapped = None;
        sequence.draft.clear();
        sequence.draft.again = 0;
        let stays = len == sequence.computed || len == 0;
        if !stays && (self.engine.is_recurrent() || len < self.pool.shortest(sequence.id)?) {
            return self.restore(sequence, len);
        }
        self.pool.truncate(sequence.id, len)?;
        sequence.snapshots.retain(|snapshot| snapshot.tokens() <= len);
        sequence.computed = len;
        sequence.tokens.truncate(len);
        sequence.drop_lost_start();
        Ok(())
    }

    /// Chooses the positions of snapshots in a prompt, from which prompts with the same prefix can start, for states
    /// that cannot be rewound to any position. They are near its end, because prompts more often share a long text
    /// than the question after it.
    pub(crate) fn set_snapshot_positions(&self, sequence: &mut Sequence) {
        let (held, end) = (sequence.computed, sequence.tokens.len());
        let far =
            SNAPSHOT_POSITIONS.iter().filter(|(before, least)| end.saturating_sub(held) >= before + least);
        sequence.snapshot_positions = far.map(|(before, _)| end - before).collect();
    }

    /// Recovers from a failed step. Rows past the length do not count, but a recurrent state may have been
    /// overwritten. Returns the error, or the error of the recovery.
    pub(super) fn recover(&mut self, sequence: &mut Sequence, error: GenerateError) -> GenerateError {
        let held = sequence.computed;
        self.recover_to(sequence, held, error)
    }

    /// As [`Self::recover`], if nothing from position `from` on is usable.
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
            self.rewind(sequence, held)
        };
        recovered.err().unwrap_or(error)
    }

    /// Takes a snapshot of a recurrent sequence, and of a windowed one if sequences share prefixes. The newest two
    /// snapshots stay (the one before the last chunk serves another answer to the prompt), and so do those at
    /// `snapshot_positions`; the others are spread evenly.
    pub(super) fn take_snapshot(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        let windows = self.needs_boundaries() && self.pool.has_windows();
        if (!self.engine.is_recurrent() && !windows) || self.has_lost(sequence) {
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

    /// Restores the longest valid snapshot of at most `len` tokens, or empties the sequence.
    fn restore(&mut self, sequence: &mut Sequence, len: usize) -> Result<(), GenerateError> {
        sequence.draft.clear();
        (sequence.draft.start, sequence.draft.again) = (None, 0);
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
        sequence.drop_lost_start();
        Ok(())
    }
}
