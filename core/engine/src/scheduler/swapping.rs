//! Swapping: copying the state of a preempted sequence out of the pool, and back.

use super::stored::{Given, Piece};
use super::{LEAST_SHARED, Scheduler};
use crate::error::GenerateError;
use crate::sequence::{Section, Sequence, StoredSequence, SwappedState};

/// Most bytes of a copy for each of its tokens. To copy a MiB away and back takes less than a millisecond, and to compute a
/// token takes more of any model that is worth it.
const MOST_PER_TOKEN: usize = 1 << 20;

impl Scheduler {
    /// A copy of what a sequence holds, where one is worth it and there is memory: `taken` is what others have of it.
    /// `None` has it computed again: fewer than [`LEAST_SHARED`] tokens, more than [`MOST_PER_TOKEN`] bytes for each, more
    /// bytes than are left, or states that cannot be read from here.
    pub(super) fn copy_aside(&mut self, sequence: &Sequence, taken: usize) -> Option<SwappedState> {
        let left = self.aside_bytes.saturating_sub(taken);
        if left == 0 || sequence.held < LEAST_SHARED || self.pool.is_lost(sequence.id).unwrap_or(true) {
            return None;
        }
        let held = self.held(sequence).ok()?.without_snapshots();
        let bytes: Option<u64> = held.sections().iter().map(|section| section.bytes(held.tokens)).sum();
        let bytes = usize::try_from(bytes?).ok()?;
        if bytes > left || bytes / MOST_PER_TOKEN >= held.tokens {
            return None;
        }
        let sections = self.sections_of(sequence, &held).ok()?;
        Some(SwappedState { held, sections })
    }

    fn sections_of(
        &mut self,
        sequence: &Sequence,
        held: &StoredSequence,
    ) -> Result<Vec<Vec<u8>>, GenerateError> {
        let size =
            |section: &Section| section.bytes(held.tokens).and_then(|bytes| usize::try_from(bytes).ok());
        let mut sections: Vec<Vec<u8>> = Vec::new();
        self.read_out(sequence, held, &mut |piece| {
            match piece {
                Piece::Begin(section) => sections.push(Vec::with_capacity(size(section).unwrap_or(0))),
                Piece::Bytes(bytes) => {
                    if let Some(section) = sections.last_mut() {
                        section.extend_from_slice(bytes);
                    }
                }
                Piece::End => {}
            }
            Ok::<_, GenerateError>(())
        })?;
        Ok(sections)
    }

    /// Puts what was set aside of a sequence back into pages. Gives `false` where that fails: it is then computed again.
    pub(super) fn bring_back(&mut self, sequence: &mut Sequence) -> bool {
        let Some(aside) = sequence.aside.take() else { return true };
        let tokens = std::mem::take(&mut sequence.tokens);
        let (prompt, cached) = (sequence.prompt, sequence.cached);
        let (cuts, borders) = (std::mem::take(&mut sequence.cuts), std::mem::take(&mut sequence.borders));
        let mut sections = aside.sections.iter();
        let mut rest: &[u8] = &[];
        let back = self.put_back(sequence, &aside.held, &mut |given| {
            match given {
                Given::Begin(_) => rest = sections.next().map_or(&[], Vec::as_slice),
                Given::Bytes(bytes) => {
                    let (now, later) = rest.split_at(bytes.len().min(rest.len()));
                    bytes[..now.len()].copy_from_slice(now);
                    rest = later;
                }
                Given::End(_) => {}
            }
            Ok::<_, GenerateError>(())
        });
        sequence.tokens = tokens;
        (sequence.prompt, sequence.cached) = (prompt, cached);
        (sequence.cuts, sequence.borders) = (cuts, borders);
        if back.is_err() && self.is_uniform() {
            sequence.prompt = sequence.tokens.len();
        }
        back.is_ok()
    }
}
