//! Swapping: the state of a preempted sequence is copied to host memory, and back.

use super::storage::{StateRead, StateWrite};
use super::{MIN_SHARED_TOKENS, Scheduler};
use crate::error::GenerateError;
use crate::sequence::{Sequence, StateSection, StoredSequence, SwappedState};

/// The most bytes of a copy for each of its tokens. Copying a MiB out and in takes less than a millisecond; a model
/// for which this matters takes longer to compute a token.
const MAX_BYTES_PER_TOKEN: usize = 1 << 20;

impl Scheduler {
    /// A copy of the state of a sequence; the other sequences use `taken` bytes. `None` = it is computed again later,
    /// because it has fewer than [`MIN_SHARED_TOKENS`] tokens, more than [`MAX_BYTES_PER_TOKEN`] bytes for each, or
    /// more bytes than are left, or because its states cannot be read from here.
    pub(super) fn swap_out(&mut self, sequence: &Sequence, taken: usize) -> Option<SwappedState> {
        let left = self.swap_bytes.saturating_sub(taken);
        if left == 0
            || sequence.computed < MIN_SHARED_TOKENS
            || self.pool.is_lost(sequence.id).unwrap_or(true)
        {
            return None;
        }
        let stored = self.stored_sequence(sequence).ok()?.without_snapshots();
        let bytes: Option<u64> = stored.sections().iter().map(|section| section.bytes(stored.tokens)).sum();
        let bytes = usize::try_from(bytes?).ok()?;
        if bytes > left || bytes / MAX_BYTES_PER_TOKEN >= stored.tokens {
            return None;
        }
        let sections = self.sections_of(sequence, &stored).ok()?;
        Some(SwappedState { stored, sections })
    }

    fn sections_of(
        &mut self,
        sequence: &Sequence,
        stored: &StoredSequence,
    ) -> Result<Vec<Vec<u8>>, GenerateError> {
        let size = |section: &StateSection| {
            section.bytes(stored.tokens).and_then(|bytes| usize::try_from(bytes).ok())
        };
        let mut sections: Vec<Vec<u8>> = Vec::new();
        self.read_state(sequence, stored, &mut |part| {
            match part {
                StateRead::Begin(section) => sections.push(Vec::with_capacity(size(section).unwrap_or(0))),
                StateRead::Bytes(bytes) => {
                    if let Some(section) = sections.last_mut() {
                        section.extend_from_slice(bytes);
                    }
                }
                StateRead::End => {}
            }
            Ok::<_, GenerateError>(())
        })?;
        Ok(sections)
    }

    /// Copies the swapped state of a sequence back into pages. Returns `false` if that fails: the state is then
    /// computed again.
    pub(super) fn swap_in(&mut self, sequence: &mut Sequence) -> bool {
        let Some(swapped) = sequence.swapped.take() else { return true };
        let tokens = std::mem::take(&mut sequence.tokens);
        let (prompt, cached) = (sequence.prompt, sequence.cached);
        let (chunk_boundaries, snapshot_positions) = (
            std::mem::take(&mut sequence.chunk_boundaries),
            std::mem::take(&mut sequence.snapshot_positions),
        );
        let mut sections = swapped.sections.iter();
        let mut rest: &[u8] = &[];
        let back = self.write_state(sequence, &swapped.stored, &mut |part| {
            match part {
                StateWrite::Begin(_) => rest = sections.next().map_or(&[], Vec::as_slice),
                StateWrite::Bytes(bytes) => {
                    let (now, later) = rest.split_at(bytes.len().min(rest.len()));
                    bytes[..now.len()].copy_from_slice(now);
                    rest = later;
                }
                StateWrite::End(_) => {}
            }
            Ok::<_, GenerateError>(())
        });
        sequence.tokens = tokens;
        (sequence.prompt, sequence.cached) = (prompt, cached);
        (sequence.chunk_boundaries, sequence.snapshot_positions) = (chunk_boundaries, snapshot_positions);
        if back.is_err() && self.is_uniform() {
            sequence.prompt = sequence.tokens.len();
        }
        back.is_ok()
    }
}
