//! [`StartedStep`]: a step between its plan and its commit. Several steps of an executor that overlaps them are in flight at
//! once, each with other sequences.

use super::Scheduler;
use super::forward::{BegunForward, ForwardOutput};
use super::plan::{PlannedRows, load_of};
use crate::error::GenerateError;
use crate::hooks::StepReport;
use crate::output::{SequenceResult, StepResults, StepRows};
use crate::sequence::Sequence;
use menagerie_model::SequenceId;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// A step that has begun. While it is in flight, its sequences must not be freed or changed; the others may.
pub(crate) struct StartedStep {
    plan: Vec<PlannedRows>,
    /// The sequences of the plan, whose indices may change before the step ends.
    ids: Vec<SequenceId>,
    /// Sequences that failed before the step.
    failed: Vec<SequenceResult>,
    forward: Result<BegunForward, GenerateError>,
    start: Instant,
    /// The time in which recurrent states were copied for it.
    copy_time: Duration,
    /// How often lost stages were restored before it.
    restores: u64,
}

impl StartedStep {
    /// Whether its result arrives later.
    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.forward, Ok(BegunForward::InFlight(..)))
    }

    /// Whether it has no rows and no results.
    pub(crate) fn is_empty(&self) -> bool {
        self.plan.is_empty() && self.failed.is_empty()
    }

    /// Whether all of its rows are of sequences that decode.
    pub(crate) fn decodes(&self) -> bool {
        load_of(&self.plan).prompt == 0
    }

    /// Marks its sequences as in flight, or as no longer in flight, and finds their indices among these sequences.
    fn mark(&mut self, sequences: &mut [&mut Sequence], in_flight: bool) {
        for (planned, id) in self.plan.iter_mut().zip(&self.ids) {
            let is_its = |sequence: &&mut Sequence| sequence.id == *id;
            if !sequences.get(planned.index).is_some_and(is_its)
                && let Some(index) = sequences.iter().position(is_its)
            {
                planned.index = index;
            }
            sequences[planned.index].in_flight = in_flight;
        }
    }
}

impl Scheduler {
    /// The most steps that are in flight at once.
    pub(crate) fn overlap(&self) -> usize {
        self.engine.model.overlap(&self.hooks.layers).max(1)
    }

    /// Begins a step of those of the sequences that are `members`; `cancel` has a flag for each sequence.
    pub(crate) fn begin_step(
        &mut self,
        sequences: &mut [&mut Sequence],
        members: &[usize],
        cancel: &[Option<&AtomicBool>],
    ) -> StartedStep {
        let failed = self.replay_lost(sequences, cancel);
        let (start, restores) = (Instant::now(), self.counts.restores);
        if !failed.is_empty() {
            let output = ForwardOutput { rows: StepRows::none(), failures: Vec::new(), hidden: Vec::new() };
            let (plan, ids, forward) = (Vec::new(), Vec::new(), Ok(BegunForward::Ended(output)));
            return StartedStep { plan, ids, failed, forward, start, copy_time: Duration::ZERO, restores };
        }
        let mut failed = self.settle_all(sequences);
        self.guess(sequences);
        let start = Instant::now();
        let (plan, without_room) = self.plan(sequences, members);
        failed.extend(without_room);
        let ids = plan.iter().map(|planned| sequences[planned.index].id).collect();
        let forward = self.begin_forward(&plan, sequences, cancel);
        let mut step = StartedStep { plan, ids, failed, forward, start, copy_time: self.copy_time, restores };
        if step.is_in_flight() {
            step.mark(sequences, true);
        }
        step
    }

    /// Waits for a step and commits its rows. `sequences` have the sequences of the step, perhaps at other indices than at
    /// its beginning; the results have their indices now.
    pub(crate) fn finish_step(
        &mut self,
        mut step: StartedStep,
        sequences: &mut [&mut Sequence],
        cancel: &[Option<&AtomicBool>],
    ) -> StepResults {
        step.mark(sequences, false);
        let StartedStep { plan, failed, forward, start, copy_time, restores, .. } = step;
        let output = match forward {
            Ok(BegunForward::Ended(output)) => Ok(output),
            Ok(BegunForward::InFlight(step, key)) => self.finish_forward((step, key), &plan, cancel),
            Err(error) => Err(error),
        };
        let (load, drafting) = (load_of(&plan), plan.iter().map(PlannedRows::drafting).sum());
        let is_complete = output.is_ok();
        let results = match output {
            Err(error) => self.replay_step((plan, restores), sequences, cancel, error),
            output => self.commit(plan, sequences, output),
        };
        let results = results.with_failed(failed);
        let time = start.elapsed();
        // The time of a step that only decodes is known if no rows of prompts are computed at the same time.
        let is_alone = !sequences.iter().any(|other| other.in_flight && !other.is_decoding());
        if is_complete && (load.prompt > 0 || is_alone) {
            self.budget.measured(load, time);
            if load.prompt == 0 {
                self.costs.measured(load.decoded, drafting, time.saturating_sub(copy_time));
            }
        }
        if !self.hooks.lifecycles.is_empty() {
            let ((pages_used, pages_free), state_bytes) = (self.pool.pages(), self.state_bytes());
            self.hooks.stepped(&StepReport { state_bytes, pages_used, pages_free, time });
            self.report_counts();
        }
        results
    }
}
