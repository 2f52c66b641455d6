//! Planning a step: how many rows each sequence gets.

use super::Scheduler;
use crate::output::SequenceResult;
use crate::sequence::{LogitRows, Sequence};
use crate::step_budget::StepLoad;
use menagerie_model::InferenceStep;
use std::ops::Range;
use std::time::Duration;

/// The most bytes of logits in a step that are only computed to score the tokens of prompts. With 150,000 tokens in the
/// vocabulary they are 55 rows, where a step of 512 rows would have 300 MB.
const SCORED_BYTES: usize = 32 << 20;

/// The rows of one sequence in a step.
pub(crate) struct PlannedRows {
    /// Its index among the sequences of the step.
    pub(crate) index: usize,
    /// Its rows in the step.
    pub(crate) rows: Range<usize>,
    /// Those that produce logits, counted from its first row.
    pub(crate) logits: Range<usize>,
    pub(crate) step: InferenceStep,
    pub(super) logit_rows: LogitRows,
    /// The number of its rows that are guesses: the last ones of a sequence that decodes.
    pub(crate) guesses: usize,
}

impl PlannedRows {
    /// The number of its rows without guesses.
    pub(crate) fn certain(&self) -> usize {
        self.rows.len().saturating_sub(self.guesses)
    }

    /// The number of its rows because of guesses: guesses, and rows that are computed again after a wrong one.
    pub(crate) fn drafting(&self) -> usize {
        match self.step {
            InferenceStep::Decode { .. } => self.rows.len().saturating_sub(1),
            InferenceStep::Prefill { .. } => 0,
        }
    }
}

/// The rows of a planned step.
pub(crate) fn load_of(plan: &[PlannedRows]) -> StepLoad {
    let mut load = StepLoad::default();
    for planned in plan {
        match planned.step {
            InferenceStep::Decode { .. } => load.decoded += planned.rows.len(),
            InferenceStep::Prefill { .. } => load.prompt += planned.rows.len(),
        }
        load.has_rows |= !planned.logits.is_empty();
    }
    load
}

impl Scheduler {
    /// Distributes the rows of a step among its `members` and reserves pages for them, most urgent sequence first. A
    /// sequence that does not fit even alone fails; the others without pages wait for a later step. What is left may go
    /// to guesses. No member is in flight; the other sequences may give up their pages, unless they are in flight.
    pub(crate) fn plan(
        &mut self,
        sequences: &mut [&mut Sequence],
        members: &[usize],
    ) -> (Vec<PlannedRows>, Vec<SequenceResult>) {
        let mut failed = Vec::new();
        let rows = self.share_out(sequences, members);
        self.copy_time = Duration::ZERO;
        note_waiting(sequences, &rows, members);
        let mut order: Vec<usize> = (0..rows.len()).filter(|&index| rows[index] > 0).collect();
        order.sort_by_key(|&index| sequences[index].urgency.rank());
        let (mut plan, mut next) = (Vec::new(), 0);
        let before: Vec<usize> = sequences.iter().map(|sequence| sequence.preemptions).collect();
        for index in order {
            // A sequence that was preempted for this step is not in it.
            if sequences[index].preemptions > before[index] {
                continue;
            }
            let rows = rows[index];
            match self.make_room(sequences, index, rows) {
                Ok(true) => {
                    let (step, logits) = sequences[index].next_step(rows);
                    let (logit_rows, rows) = (sequences[index].logit_rows, next..next + rows);
                    next = rows.end;
                    plan.push(PlannedRows { index, rows, logits, step, logit_rows, guesses: 0 });
                }
                Ok(false) => {}
                Err(error) => {
                    // Its state is dropped, so that the other sequences get its pages.
                    let error = self.reset(sequences[index]).err().unwrap_or(error);
                    failed.push(SequenceResult { index, rows: Err(error) });
                }
            }
        }
        self.add_drafts(&mut plan, sequences);
        self.counts.steps += u64::from(!plan.is_empty());
        (plan, failed)
    }

    /// Rows of each sequence: one for each that decodes and those that a wrong guess has undone, then chunks of prompts, up to `step_tokens`, or beside
    /// sequences that decode up to the rows of the bounded time. Among sequences of the same priority, the one that
    /// has waited longest comes first.
    fn share_out(&self, sequences: &[&mut Sequence], members: &[usize]) -> Vec<usize> {
        let mut order = members.to_vec();
        order.sort_by_key(|&index| sequences[index].urgency.turn());
        if let Some(suspect) = self.suspect(sequences) {
            order.retain(|&index| index == suspect);
        }
        let whole = self.engine.takes_whole_prompts();
        let (mut rows, mut left) = (vec![0; sequences.len()], self.step_tokens);
        let mut scored = (SCORED_BYTES / self.engine.vocabulary().max(1) / size_of::<f32>()).max(1);
        for &index in order.iter().filter(|&&index| sequences[index].is_decoding()) {
            rows[index] = left.min(1 + sequences[index].draft.again).min(sequences[index].uncomputed());
            left -= rows[index];
        }
        // Steps in which others decode are computed at the same time.
        let elsewhere = |index: usize| sequences[index].is_decoding() && !members.contains(&index);
        if !whole && (rows.iter().any(|rows| *rows > 0) || (0..sequences.len()).any(elsewhere)) {
            left = left.min(self.budget.rows(self.step_time));
        }
        for index in order {
            let sequence = &sequences[index];
            // After a preemption, tokens of the answer may follow the prompt: they are decoded.
            let pending = sequence.uncomputed().min(sequence.prompt.saturating_sub(sequence.reached()));
            if rows[index] == 0 && !sequence.is_decoding() && !(whole && pending > left) {
                rows[index] = sequence.rows_until_boundary(pending.min(left));
                if !whole {
                    rows[index] -= sequence.scored_rows(rows[index]).saturating_sub(scored);
                    scored -= sequence.scored_rows(rows[index]);
                }
                left -= rows[index];
            }
        }
        rows
    }
}

/// Counts the steps in which a sequence had pending rows and got none. A step of sequences that decode delays no prompt,
/// and vice versa.
fn note_waiting(sequences: &mut [&mut Sequence], rows: &[usize], members: &[usize]) {
    let kinds: Vec<bool> = members.iter().map(|&index| sequences[index].is_decoding()).collect();
    for (sequence, rows) in sequences.iter_mut().zip(rows) {
        if sequence.in_flight || sequence.uncomputed() == 0 || !kinds.contains(&sequence.is_decoding()) {
            continue;
        }
        sequence.urgency.waited = if *rows > 0 { 0 } else { sequence.urgency.waited + 1 };
    }
}
