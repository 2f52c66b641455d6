//! [`Answering`]: the answers to a request that is being computed.

use crate::answer_fold::{AnswerDelta, AnswerFold};
use crate::answer_times::AnswerTimes;
use crate::deadline::DeadlineTimer;
use crate::fault::ApiFault;
use crate::model::EngineModel;
use crate::observer::AnswerPlaces;
use crate::worker::{AnswerMessage, CancelGuard};
use menagerie::engine::{Outcome, StopReason};
use menagerie_openai::{AnswerFormat, AnswerToken, answer_usage};
use serde_json::{Value, json};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc::UnboundedReceiver;

/// What every part of an answer names.
#[derive(Clone, Debug)]
pub(crate) struct AnswerHead {
    pub(crate) format: AnswerFormat,
    pub(crate) id: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) model: String,
}

/// A change of the answers.
#[derive(Debug)]
pub(crate) enum AnswerChange {
    /// Of this choice.
    Delta(usize, AnswerDelta),
    /// A choice ended; [`Answering::outcome`] says how.
    Finish(usize),
}

/// The answers to a request. When it is dropped, they are cancelled.
pub(crate) struct Answering {
    model: Arc<EngineModel>,
    messages: UnboundedReceiver<AnswerMessage>,
    folds: Vec<AnswerFold>,
    times: Vec<AnswerTimes>,
    places: AnswerPlaces,
    /// The number of answers to each prompt.
    groups: Vec<usize>,
    ended: Vec<Option<Outcome>>,
    deadline: DeadlineTimer,
    _guard: CancelGuard,
}

impl Answering {
    pub(crate) fn new(
        model: Arc<EngineModel>,
        messages: UnboundedReceiver<AnswerMessage>,
        groups: Vec<usize>,
        guard: CancelGuard,
    ) -> Self {
        let count = groups.iter().sum();
        let folds = (0..count).map(|_| AnswerFold::default()).collect();
        let times = vec![AnswerTimes::now(&model.id); count];
        let places = AnswerPlaces::of_current(&times);
        let ended = (0..count).map(|_| None).collect();
        let deadline = DeadlineTimer::of_current();
        Self { model, messages, folds, times, places, groups, ended, deadline, _guard: guard }
    }

    /// The number of answers.
    pub(crate) fn count(&self) -> usize {
        self.ended.len()
    }

    /// Whether every answer has ended.
    pub(crate) fn is_complete(&self) -> bool {
        self.ended.iter().all(Option::is_some)
    }

    /// How a choice ended.
    pub(crate) fn outcome(&self, choice: usize) -> Option<&Outcome> {
        self.ended.get(choice)?.as_ref()
    }

    /// When a choice was computed.
    pub(crate) fn times(&self, choice: usize) -> Option<&AnswerTimes> {
        self.times.get(choice)
    }

    /// The tokens of the reasoning of all answers.
    pub(crate) fn reasoning_tokens(&self) -> usize {
        self.folds.iter().map(AnswerFold::reasoning_tokens).sum()
    }

    /// The tokens of the prompt of a choice; the first answer to each prompt reports them.
    pub(crate) fn prompt_tokens(&self, choice: usize) -> &[AnswerToken] {
        let mut first = 0;
        for group in &self.groups {
            if choice < first + group {
                break;
            }
            first += group;
        }
        self.folds.get(first).map_or(&[], |fold| &fold.prompt)
    }

    /// The next changes.
    pub(crate) async fn next(&mut self) -> Result<Vec<AnswerChange>, ApiFault> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// [`Self::next`], if there are any.
    pub(crate) fn poll_next(&mut self, context: &mut Context) -> Poll<Result<Vec<AnswerChange>, ApiFault>> {
        // The time is over, however much the model still says.
        if let Poll::Ready(fault) = self.deadline.poll(context) {
            return Poll::Ready(Err(fault));
        }
        self.messages.poll_recv(context).map(|message| match message {
            Some(message) => self.hear(message),
            None => Err(self.model.worker.closed()),
        })
    }

    fn hear(&mut self, message: AnswerMessage) -> Result<Vec<AnswerChange>, ApiFault> {
        match message {
            AnswerMessage::Began(choice, at) => {
                self.time(choice, |times| times.began = Some(at));
                Ok(Vec::new())
            }
            AnswerMessage::Event(choice, event, at) => {
                self.time(choice, |times| times.event(&event, at));
                let Some(fold) = self.folds.get_mut(choice) else { return Ok(Vec::new()) };
                let changes = fold.event(event, at).into_iter();
                Ok(changes.map(|change| AnswerChange::Delta(choice, change)).collect())
            }
            AnswerMessage::Ended(choice, outcome, at) => {
                let outcome = (*outcome)?;
                self.time(choice, |times| times.ended(&outcome, at));
                // The client is still here, so the server ends.
                if outcome.reason == StopReason::Cancelled {
                    return Err(ApiFault::shutting_down());
                }
                if let Some(slot) = self.ended.get_mut(choice) {
                    *slot = Some(outcome);
                }
                Ok(vec![AnswerChange::Finish(choice)])
            }
        }
    }

    /// Changes the times of a choice.
    fn time(&mut self, choice: usize, change: impl FnOnce(&mut AnswerTimes)) {
        if let Some(times) = self.times.get_mut(choice) {
            change(times);
            self.places.keep(choice, times);
        }
    }

    /// `usage` of answers that have ended.
    pub(crate) fn usage(&self) -> Value {
        let (mut first, mut prompt, mut made, mut cached) = (0, 0, 0, 0);
        let (mut accepted, mut rejected) = (0, 0);
        for group in &self.groups {
            let outcomes = self.ended.iter().skip(first).take(*group).flatten().cloned();
            let one = answer_usage(&outcomes.collect::<Vec<_>>());
            let count = |value: &Value| value.as_u64().unwrap_or(0);
            prompt += count(&one["prompt_tokens"]);
            made += count(&one["completion_tokens"]);
            cached += count(&one["prompt_tokens_details"]["cached_tokens"]);
            let details = &one["completion_tokens_details"];
            accepted += count(&details["accepted_prediction_tokens"]);
            rejected += count(&details["rejected_prediction_tokens"]);
            first += group;
        }
        json!({
            "prompt_tokens": prompt, "completion_tokens": made, "total_tokens": prompt + made,
            "prompt_tokens_details": { "cached_tokens": cached },
            "completion_tokens_details": {
                "reasoning_tokens": self.reasoning_tokens(),
                "accepted_prediction_tokens": accepted,
                "rejected_prediction_tokens": rejected,
            },
        })
    }
}
