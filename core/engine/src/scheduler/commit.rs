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
    /// of the whole forward pass is reported for every sequence in it. Rows of guesses become part of a sequence when it
    /// takes their tokens ([`Self::push`]).
    pub(crate) fn commit(
        &mut self,
        plan: Vec<PlannedRows>,
        sequences: &mut [&mut Sequence],
        made: Result<ForwardOutput, GenerateError>,
    ) -> StepResults {
        let ForwardOutput { rows, mut failures, hidden } = match made {
            Ok(made) => made,
            Err(error) => {
                return StepResults::new(StepRows::none(), self.recover_all(&plan, sequences, error));
            }
        };
        let (mut parts, mut next, mut hidden) = (Vec::with_capacity(plan.len()), 0, hidden.into_iter());
        for (place, planned) in plan.into_iter().enumerate() {
            let own = next..next + planned.logits.len();
            next = own.end;
            let sequence = &mut *sequences[planned.index];
            sequence.hidden = hidden.next().unwrap_or_default();
            let result = match failures.iter().position(|failure| failure.index == place) {
                // A guess is the reason. The next step computes the token alone.
                Some(at)
                    if planned.guesses > 0
                        && failures[at].position >= sequence.computed + planned.certain() =>
                {
                    sequence.draft.clear();
                    match self.settle(sequence) {
                        Ok(()) => continue,
                        Err(error) => Err(self.recover(sequence, error)),
                    }
                }
                Some(at) => {
                    let failure = failures.swap_remove(at);
                    Err(self.recover_to(sequence, failure.position, failure.error.into()))
                }
                None => {
                    let result = self.commit_one(sequence, &planned, &rows, own);
                    result.map_err(|error| self.recover(sequence, error))
                }
            };
            parts.push(SequenceResult { index: planned.index, rows: result });
        }
        StepResults::new(rows, parts)
    }

    fn commit_one(
        &mut self,
        sequence: &mut Sequence,
        planned: &PlannedRows,
        made: &StepRows,
        own: Range<usize>,
    ) -> Result<OutputRows, GenerateError> {
        let guesses = planned.guesses;
        let (certain, rows) = (own.start..own.end - guesses, planned.certain());
        if !certain.is_empty() {
            let (first, kv_type) = (sequence.computed + planned.logits.start, self.engine.kv_type);
            made.show(&certain, |values, width| check_finite(values, width, first, kv_type))?;
        }
        let usable = self.usable_guesses(certain.end..own.end, made)?;
        match &mut sequence.draft.start {
            // The recurrent states have taken all rows. It is decided later whether they stay.
            Some(start) => start.rows = planned.rows.len(),
            None => self.pool.advance(sequence.id, rows)?,
        }
        sequence.computed += rows;
        sequence.draft.computed(guesses, usable);
        sequence.draft.again = sequence.draft.again.saturating_sub(rows);
        if !own.is_empty() {
            sequence.losses = 0;
        }
        self.counts.rows += planned.rows.len() as u64;
        self.counts.drafted += guesses as u64;
        if sequence.draft.start.is_some() {
            return Ok(planned.output(own.start..own.end - (guesses - usable)));
        }
        self.write_blocks(sequence);
        self.keep_prefix_at_boundary(sequence)?;
        if matches!(planned.step, InferenceStep::Prefill { .. }) {
            self.take_snapshot(sequence)?;
        }
        Ok(planned.output(own.start..own.end - (guesses - usable)))
    }

    /// The number of rows of guesses before the first one that is not finite. If the answer takes that guess, the next
    /// step computes it again, and its error is that of the answer.
    fn usable_guesses(&self, rows: Range<usize>, made: &StepRows) -> Result<usize, GenerateError> {
        let mut usable = 0;
        made.show(&rows, |values, width| {
            let finite = |row: &&[f32]| check_finite(row, width, 0, self.engine.kv_type).is_ok();
            usable = values.chunks_exact(width.max(1)).take_while(finite).count();
            Ok(())
        })?;
        Ok(usable)
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
            (InferenceStep::Decode { .. }, _) if own.len() > 1 => OutputRows::RowByRow(own),
            (InferenceStep::Decode { .. }, _) | (InferenceStep::Prefill { .. }, LogitRows::Last) => {
                OutputRows::LastLogits(own)
            }
            (InferenceStep::Prefill { .. }, LogitRows::All | LogitRows::From(_)) => {
                OutputRows::AllLogits(own)
            }
        }
    }
}
