//! What a forward gave becomes part of the sequences.

use super::{Planned, Scheduler};
use crate::engine::check_finite;
use crate::error::GenerateError;
use crate::output::{OwnRows, Step, StepPart, StepRows, shared};
use crate::scheduler::forward::Forward;
use crate::sequence::{Sequence, Wanted};
use menagerie_model::InferenceStep;
use std::ops::Range;

impl Scheduler {
    /// Makes the rows of a plan part of their sequences, those that did not fail and whose logits are numbers. An error of the
    /// forward is that of every sequence in it.
    pub(crate) fn commit(
        &mut self,
        plan: Vec<Planned>,
        sequences: &mut [&mut Sequence],
        made: Result<Forward, GenerateError>,
    ) -> Step {
        let Forward { rows, mut failures } = match made {
            Ok(made) => made,
            Err(error) => return Step::new(StepRows::none(), self.recover_all(&plan, sequences, error)),
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
            parts.push(StepPart { index: planned.index, result: result.map(|()| planned.output(own)) });
        }
        Step::new(rows, parts)
    }

    fn commit_one(
        &mut self,
        sequence: &mut Sequence,
        planned: &Planned,
        made: &StepRows,
        own: &Range<usize>,
    ) -> Result<(), GenerateError> {
        if !own.is_empty() {
            let (first, kv_type) = (sequence.held + planned.logits.start, self.engine.kv_type);
            made.show(own, |values, width| check_finite(values, width, first, kv_type))?;
        }
        self.pool.advance(sequence.id, planned.rows.len())?;
        sequence.held += planned.rows.len();
        self.counts.rows += planned.rows.len() as u64;
        self.leave_at_cut(sequence)?;
        if matches!(planned.step, InferenceStep::Prefill { .. }) {
            self.remember(sequence)?;
        }
        Ok(())
    }

    /// After a forward that failed: the first sequence has its error, the others say so.
    fn recover_all(
        &mut self,
        plan: &[Planned],
        sequences: &mut [&mut Sequence],
        error: GenerateError,
    ) -> Vec<StepPart> {
        let others: Vec<GenerateError> = plan.iter().skip(1).map(|_| shared(&error)).collect();
        let errors = std::iter::once(error).chain(others);
        let recovered = |(planned, error): (&Planned, GenerateError)| {
            let error = self.recover(sequences[planned.index], error);
            StepPart { index: planned.index, result: Err(error) }
        };
        plan.iter().zip(errors).map(recovered).collect()
    }
}

impl Planned {
    /// What its rows of logits are.
    fn output(&self, own: Range<usize>) -> OwnRows {
        match (self.step, self.wanted) {
            _ if own.is_empty() => OwnRows::Nothing,
            (InferenceStep::Decode { .. }, _) | (InferenceStep::Prefill { .. }, Wanted::Last) => {
                OwnRows::LastLogits(own)
            }
            (InferenceStep::Prefill { .. }, Wanted::All | Wanted::From(_)) => OwnRows::AllLogits(own),
        }
    }
}
