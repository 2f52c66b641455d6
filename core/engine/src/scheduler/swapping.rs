//! Swapping: copying the state of a preempted sequence out of the pool, and back.

use super::storage::{StateRead, StateWrite};
use super::{MIN_SHARED_TOKENS, Scheduler};
use crate::error::GenerateError;
use crate::sequence::{Section, Sequence, StoredSequence, SwappedState};

/// Most bytes of a copy for each of its tokens. To copy a MiB away and back takes less than a millisecond, and to compute a
/// token takes more of any model that is worth it.
const MAX_BYTES_PER_TOKEN: usize = 1 << 20;

impl Scheduler {
    /// A copy of what a sequence holds, where one is worth it and there is memory: `taken` is what others have of it.
    /// `None` has it computed again: fewer than [`MIN_SHARED_TOKENS`] tokens, more than [`MAX_BYTES_PER_TOKEN`] bytes for each, more
    /// bytes than are left, or states that cannot be read from here.
    pub(super) fn swap_out(&mut self, sequence: &Sequence, taken: usize) -> Option<SwappedState> {
        let left = self.aside_bytes.saturating_sub(taken);
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
        let size =
            |section: &Section| section.bytes(stored.tokens).and_then(|bytes| usize::try_from(bytes).ok());
        let mut sections: Vec<Vec<u8>> = Vec::new();
        self.read_out(sequence, stored, &mut |part| {
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

    /// Puts what was set aside of a sequence back into pages. Gives `false` where that fails: it is then computed again.
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
        let back = self.put_back(sequence, &swapped.stored, &mut |part| {
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
