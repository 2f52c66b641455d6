//! Steps in flight: an executor that overlaps steps (a chain of stages) computes a part of the running sequences in each.
//!
//! A step then has either rows of prompts or rows of sequences that decode. The sequences that decode are divided over the
//! steps. A chunk of a prompt that is not the last has no logits, so its sequence is in flight no longer than its frame is
//! sent, and the stages overlap the chunks of one prompt. Between two steps of sequences that decode, at most one step of
//! prompts begins. Steps end in the order in which they began.

use super::{Queue, RunningRequest};
use crate::output::StepResults;
use crate::scheduler::StartedStep;
use crate::sequence::Sequence;
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

/// The steps in flight, the oldest first.
#[derive(Default)]
pub(crate) struct OverlappedSteps {
    steps: VecDeque<StartedStep>,
    /// Whether a step of prompts began since a step in flight ended.
    prompts_began: bool,
    /// Steps that began so far.
    begun: u64,
}

/// The sequences that a step may have, and their flags of cancellation.
type StepParts<'r> = (Vec<&'r mut Sequence>, Vec<Option<&'r AtomicBool>>);

/// The sequences of the running requests, with their flags.
fn parts(running: &mut [RunningRequest]) -> StepParts<'_> {
    let parts = running.iter_mut().map(|RunningRequest { sequence, generation, .. }| {
        (sequence, generation.cancel_flag().map(|flag| &**flag))
    });
    parts.unzip()
}

impl Queue {
    /// Computes one step of the running requests: with an executor that overlaps steps, begins as many as it can compute at
    /// once, and waits for the oldest. `None` if no request is running. A step ends early only if all requests in it are
    /// cancelled.
    pub(crate) fn compute(&mut self) -> Option<StepResults> {
        if self.running.is_empty() {
            return None;
        }
        let overlap = self.scheduler.overlap();
        if overlap == 1 {
            let all: Vec<usize> = (0..self.running.len()).collect();
            let step = self.begin_members(&all);
            return Some(self.finish(step));
        }
        self.compute_overlapped(overlap)
    }

    /// As [`Self::compute`], with up to `overlap` steps of sequences that decode in flight, and a step of prompts.
    fn compute_overlapped(&mut self, overlap: usize) -> Option<StepResults> {
        while let Some(step) = self.begin_part(overlap) {
            if !step.is_in_flight() {
                return Some(self.finish(step));
            }
            self.overlapped.steps.push_back(step);
        }
        if let Some(step) = self.overlapped.steps.pop_front() {
            self.overlapped.prompts_began = false;
            return Some(self.finish(step));
        }
        // No part has rows: the sequences wait for each other.
        let all: Vec<usize> = (0..self.running.len()).collect();
        let step = self.begin_members(&all);
        Some(self.finish(step))
    }

    /// Begins a step of sequences that decode, or of prompts. `None` if there is none that may begin.
    fn begin_part(&mut self, overlap: usize) -> Option<StartedStep> {
        let in_flight = self.overlapped.steps.len();
        let decoding = self.overlapped.steps.iter().filter(|step| step.decodes()).count();
        if decoding < overlap && in_flight <= overlap {
            let part = self.decoding_part(overlap);
            let step = (!part.is_empty()).then(|| self.begin_members(&part)).filter(|step| !step.is_empty());
            if step.is_some() {
                return step;
            }
        }
        // Prompts have a step in addition while others decode, one for each step that ends.
        let may_begin = match decoding {
            0 => in_flight < overlap,
            _ => in_flight <= overlap && !self.overlapped.prompts_began,
        };
        if !may_begin {
            return None;
        }
        let part = self.prompt_part(overlap);
        let step = (!part.is_empty()).then(|| self.begin_members(&part)).filter(|step| !step.is_empty());
        self.overlapped.prompts_began |= step.is_some();
        step
    }

    /// The running requests that wait for a step, and decode or not.
    fn ready(&self, decode: bool) -> Vec<usize> {
        let is_ready = |one: &RunningRequest| {
            !one.sequence.in_flight && one.sequence.uncomputed() > 0 && one.sequence.is_decoding() == decode
        };
        (0..self.running.len()).filter(|&index| is_ready(&self.running[index])).collect()
    }

    /// Sequences that decode, for one of `overlap` steps: their share of all that decode, and those first whose last step
    /// began first.
    fn decoding_part(&self, overlap: usize) -> Vec<usize> {
        let all = self.running.iter().filter(|one| one.sequence.is_decoding()).count();
        let mut ready = self.ready(true);
        ready.sort_by_key(|&index| self.running[index].begun);
        ready.truncate(all.div_ceil(overlap));
        ready.sort_unstable();
        ready
    }

    /// Prompts, for one of the steps that may still begin: their share of all that are ready, the most urgent first.
    fn prompt_part(&self, overlap: usize) -> Vec<usize> {
        let mut ready = self.ready(false);
        let left = overlap.saturating_sub(self.overlapped.steps.len()).max(1);
        ready.sort_by_key(|&index| self.running[index].sequence.urgency.turn());
        ready.truncate(ready.len().div_ceil(left));
        ready.sort_unstable();
        ready
    }

    /// Begins a step of these running requests.
    fn begin_members(&mut self, members: &[usize]) -> StartedStep {
        self.overlapped.begun += 1;
        for &index in members {
            let one = &mut self.running[index];
            one.begun = self.overlapped.begun;
            one.generation.propose(&mut self.scheduler, &mut one.sequence);
        }
        let (mut sequences, flags) = parts(&mut self.running);
        self.scheduler.begin_step(&mut sequences, members, &flags)
    }

    /// Waits for a step.
    fn finish(&mut self, step: StartedStep) -> StepResults {
        let (mut sequences, flags) = parts(&mut self.running);
        self.scheduler.finish_step(step, &mut sequences, &flags)
    }
}
