//! Committing a step: the rows of a forward pass become part of their sequences.

use super::{PlannedRows, Scheduler};
use crate::engine::check_finite;
use crate::error::GenerateError;
use crate::output::{OutputRows, SequenceResult, StepResults, StepRows, error_for_others};
use crate::scheduler::forward::ForwardOutput;
use crate::sequence::{LogitRows, Sequence};
use menagerie_model::InferenceStep;
use std::ops::Range;

impl Scheduler {
    /// Appends the computed rows to their sequences, except those that failed or whose logits are not finite. An error
    /// of the whole forward pass is reported for every sequence in it.
    pub(crate) fn commit(
        &mut self,
        plan: Vec<PlannedRows>,
        sequences: &mut [&mut Sequence],
        made: Result<ForwardOutput, GenerateError>,
    ) -> StepResults {
        let ForwardOutput { rows, mut failures } = match made {
            Ok(made) => made,
            Err(error) => {
                return StepResults::new(StepRows::none(), self.recover_all(&plan, sequences, error));
            }
        };
        let (mut parts, mut next) = (Vec::with_capacity(plan.len()), 0);
        for (place, planned) in plan.into_iter().enumerate() {
            let own = next..next + planned.logits.len();
            next = own.end;
            let sequence = &mut *sequences[planned.index];
            let result = match failures.iter().position(|failure| failure.index == place) {
                Some(at) => {
                    let failure = failures.swap_remove(at);
                    Err(self.recover_to(sequence, failure.position, failure.error.into()))
                }
                None => {
                    let result = self.commit_one(sequence, &planned, &rows, &own);
                    result.map_err(|error| self.recover(sequence, error))
                }
            };
            parts.push(SequenceResult { index: planned.index, rows: result.map(|()| planned.output(own)) });
        }
        StepResults::new(rows, parts)
    }

    fn commit_one(
        &mut self,
        sequence: &mut Sequence,
        planned: &PlannedRows,
        made: &StepRows,
        own: &Range<usize>,
    ) -> Result<(), GenerateError> {
        if !own.is_empty() {
            let (first, kv_type) = (sequence.computed + planned.logits.start, self.engine.kv_type);
            made.show(own, |values, width| check_finite(values, width, first, kv_type))?;
        }
        self.pool.advance(sequence.id, planned.rows.len())?;
        sequence.computed += planned.rows.len();
        self.counts.rows += planned.rows.len() as u64;
        self.keep_prefix_at_boundary(sequence)?;
        if matches!(planned.step, InferenceStep::Prefill { .. }) {
            self.take_snapshot(sequence)?;
        }
        Ok(())
    }

    /// Results after a forward pass that failed: its error for the first sequence, an error that names it for the
    /// others.
    fn recover_all(
        &mut self,
        plan: &[PlannedRows],
        sequences: &mut [&mut Sequence],
        error: GenerateError,
    ) -> Vec<SequenceResult> {
        let others: Vec<GenerateError> = plan.iter().skip(1).map(|_| error_for_others(&error)).collect();
        let errors = std::iter::once(error).chain(others);
        let recovered = |(planned, error): (&PlannedRows, GenerateError)| {
            let error = self.recover(sequences[planned.index], error);
            SequenceResult { index: planned.index, rows: Err(error) }
        };
        plan.iter().zip(errors).map(recovered).collect()
    }
}

impl PlannedRows {
    /// The kind of its logits.
    fn output(&self, own: Range<usize>) -> OutputRows {
        match (self.step, self.logit_rows) {
            _ if own.is_empty() => OutputRows::Nothing,
            (InferenceStep::Decode { .. }, _) | (InferenceStep::Prefill { .. }, LogitRows::Last) => {
                OutputRows::LastLogits(own)
            }
            (InferenceStep::Prefill { .. }, LogitRows::All | LogitRows::From(_)) => {
                OutputRows::AllLogits(own)
            }
        }
    }
}
