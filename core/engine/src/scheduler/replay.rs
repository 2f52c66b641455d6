//! Replays: states that were lost with a stage are computed again from the tokens of their sequences.
//!
//! A replay is like a preemption without swapping. The answers do not notice it: their samplers, constraints and texts are not
//! part of the state, and the rows that are computed again are the same, bit for bit.

use super::{PlannedRows, Scheduler};
use crate::error::GenerateError;
use crate::output::{SequenceResult, StepResults, StepRows, error_for_others};
use crate::sequence::Sequence;
use menagerie_model::Cancellation;
use std::sync::atomic::AtomicBool;

/// The most losses of a sequence in a row, without a row of logits between them. It fails then, because it may be their reason.
const MOST_LOSSES: usize = 3;

/// Losses in a row after which a sequence is computed alone, so that the one that is the reason is found.
const LOSSES_OF_SUSPECTS: usize = 2;

/// The flags that cancel each of the sequences of a step.
type Flags<'a> = [Option<&'a AtomicBool>];

impl Scheduler {
    /// Before a step: recovers from a loss between two steps, or one that another scheduler noticed. Returns the sequences that
    /// failed.
    pub(crate) fn replay_lost(
        &mut self,
        sequences: &mut [&mut Sequence],
        cancel: &Flags,
    ) -> Vec<SequenceResult> {
        // A state that is stored on disk is read from the stages, which may fail.
        let undecided = sequences.iter_mut().filter(|one| !one.in_flight && one.draft.start.is_some());
        let settled = undecided.map(|sequence| self.settle(sequence)).find_map(Result::err);
        let lost: Vec<usize> = (0..sequences.len())
            .filter(|&index| !sequences[index].in_flight && sequences[index].replays)
            .filter(|&index| self.has_lost(sequences[index]))
            .collect();
        if let Some(error) = settled {
            return self.fail_all(sequences, error);
        }
        if lost.is_empty() {
            return Vec::new();
        }
        let reason = self.pool.loss().map(GenerateError::from);
        match reason.as_ref().map_or(Ok(true), |reason| self.restore_after(reason, cancel)) {
            Ok(true) => self.replay(&lost, sequences, reason),
            // The error of the next step says why.
            Ok(false) => Vec::new(),
            Err(error) => self.fail_all(sequences, error),
        }
    }

    /// After a step failed with `error`: recovers from it, if its reason is a lost stage, so that the next step continues.
    /// Returns the sequences that failed; those that are computed again have no result. `restores` are those before the
    /// step: if there was one since, for another step in flight, this step was lost with that one.
    pub(crate) fn replay_step(
        &mut self,
        (plan, restores): (Vec<PlannedRows>, u64),
        sequences: &mut [&mut Sequence],
        cancel: &Flags,
        error: GenerateError,
    ) -> StepResults {
        if !plan.iter().any(|planned| sequences[planned.index].replays) {
            return self.commit(plan, sequences, Err(error));
        }
        let restored = match self.counts.restores > restores {
            true => Ok(true),
            false => self.restore_after(&error, cancel),
        };
        let failed = match restored {
            Ok(true) => {
                let computed: Vec<usize> = plan.iter().map(|planned| planned.index).collect();
                self.replay(&computed, sequences, Some(error))
            }
            Ok(false) => return self.commit(plan, sequences, Err(error)),
            Err(error) => self.fail_all(sequences, error),
        };
        StepResults::new(StepRows::none(), failed)
    }

    /// The sequence that a step computes alone: after several losses in a row, the most urgent one that took part in them.
    pub(super) fn suspect(&self, sequences: &[&mut Sequence]) -> Option<usize> {
        let suspects = (0..sequences.len()).filter(|&index| {
            sequences[index].losses >= LOSSES_OF_SUSPECTS && sequences[index].uncomputed() > 0
        });
        suspects.min_by_key(|&index| sequences[index].urgency.rank())
    }

    /// Lets the model restore what it lost. Returns whether sequences can be computed again.
    fn restore_after(&mut self, error: &GenerateError, cancel: &Flags) -> Result<bool, GenerateError> {
        let GenerateError::Model(error) = error else { return Ok(false) };
        let flags: Option<Vec<&AtomicBool>> = cancel.iter().copied().collect();
        let restored = self.engine.model.restore(error, Cancellation::by_all(&flags.unwrap_or_default()))?;
        self.counts.restores += u64::from(restored);
        Ok(restored)
    }

    /// Drops the states that were lost, so that they are computed again. `computed` are the sequences that were being computed:
    /// those that are not answers fail with `reason`, and so do those that lost their state too often.
    fn replay(
        &mut self,
        computed: &[usize],
        sequences: &mut [&mut Sequence],
        reason: Option<GenerateError>,
    ) -> Vec<SequenceResult> {
        let mut failed = Vec::new();
        self.forget_lost();
        for (index, sequence) in sequences.iter_mut().enumerate() {
            let is_computed = computed.contains(&index);
            // Those in flight follow when their step ends.
            if sequence.in_flight || (!is_computed && !self.has_lost(sequence)) {
                continue;
            }
            sequence.losses += usize::from(is_computed);
            let kept = match &reason {
                Some(reason) if is_computed && !sequence.replays => Err(error_for_others(reason)),
                Some(reason) if sequence.losses >= MOST_LOSSES => {
                    Err(GenerateError::LostRepeatedly { times: sequence.losses, fault: reason.to_string() })
                }
                _ if sequence.replays => self.drop_lost(sequence),
                _ => Ok(()),
            };
            if let Err(error) = kept {
                sequence.losses = 0;
                failed.push(SequenceResult { index, rows: Err(self.recover(sequence, error)) });
            }
        }
        failed
    }

    /// Drops the state of a sequence, which later steps compute again from its tokens. If prompt rows differ from generated
    /// rows, or hooks tell them apart, the tokens of the answer are computed one by one again.
    fn drop_lost(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        self.counts.replays += 1;
        self.counts.replayed_tokens += sequence.computed as u64;
        self.settle(sequence)?;
        let tokens = std::mem::take(&mut sequence.tokens);
        let went = self.rewind(sequence, 0);
        sequence.tokens = tokens;
        if self.is_uniform() && self.hooks.layers.are_for_all_phases() {
            sequence.prompt = sequence.tokens.len();
        }
        went
    }

    /// Whether the state of a sequence is lost.
    pub(super) fn has_lost(&self, sequence: &Sequence) -> bool {
        self.pool.is_lost(sequence.id).unwrap_or(false)
    }

    /// Drops the cached sequences whose states were lost.
    fn forget_lost(&mut self) {
        let (lost, kept): (Vec<Sequence>, Vec<Sequence>) = std::mem::take(&mut self.cached)
            .into_iter()
            .partition(|cached| self.pool.is_lost(cached.id).unwrap_or(true));
        self.cached = kept;
        for sequence in lost {
            if let Err(error) = self.free(sequence) {
                tracing::warn!(%error, "a cached sequence whose state was lost cannot be freed");
            }
        }
    }

    /// Ends every sequence with an error: what they need could not be restored.
    fn fail_all(&mut self, sequences: &mut [&mut Sequence], error: GenerateError) -> Vec<SequenceResult> {
        let pending = sequences.iter_mut().enumerate();
        pending
            .filter(|(_, sequence)| !sequence.in_flight && sequence.uncomputed() > 0)
            .map(|(index, sequence)| {
                sequence.losses = 0;
                let error = self.recover(sequence, error_for_others(&error));
                SequenceResult { index, rows: Err(error) }
            })
            .collect()
    }
}
