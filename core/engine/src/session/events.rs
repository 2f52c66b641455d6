//! [`Events`]: a generation as an iterator over its events.

use super::Session;
use crate::error::GenerateError;
use crate::generation::Generation;
use crate::hooks::{RequestArrival, RequestKind};
use crate::output::StepResults;
use crate::prompt::Prompt;
use crate::request::{Event, EventResponse, Outcome, Request};
use crate::stopping::StopReason;
use std::collections::VecDeque;
use std::time::Duration;

/// Passes events to a callback until there are no more, or the callback stops the generation.
///
/// # Errors
/// The error that ended the generation.
pub(crate) fn listen<R: EventResponse>(
    events: &mut impl Iterator<Item = Result<Event, GenerateError>>,
    mut sink: impl FnMut(Event) -> R,
) -> Result<(), GenerateError> {
    for event in events {
        if sink(event?).flow().is_break() {
            break;
        }
    }
    Ok(())
}

/// A generation as an iterator: each call of `next` computes until the next [`Event`]. An error is the last item.
///
/// [`Self::into_outcome`] returns the outcome. It cancels a generation that has not ended, and so does dropping the
/// iterator. The session can be used again at once.
pub struct Events<'s> {
    session: &'s mut Session,
    /// `None` after its end.
    generation: Option<Box<Generation>>,
    /// Rows of the last step for guesses that were right.
    rest: Option<StepResults>,
    /// Events of the last step that `next` has not returned yet.
    pending: VecDeque<Event>,
    result: Option<Result<Outcome, GenerateError>>,
}

impl<'s> Events<'s> {
    /// Starts a generation in the sequence of `session`.
    pub(crate) fn new(session: &'s mut Session, prompt: Prompt, request: &Request) -> Self {
        let arrival = RequestArrival::new(&session.scheduler.hooks().lifecycles, RequestKind::Text);
        let (generation, result) = match begin(session, prompt, request) {
            Ok(mut generation) => {
                generation.begin(arrival, &session.sequence, Duration::ZERO);
                (Some(generation), None)
            }
            Err(error) => {
                arrival.refused(&error);
                (None, Some(Err(error)))
            }
        };
        Self { session, generation, rest: None, pending: VecDeque::new(), result }
    }

    /// Only the text of the answer, in pieces of whole characters.
    pub fn text(self) -> impl Iterator<Item = Result<String, GenerateError>> + 's {
        self.filter_map(|event| match event {
            Ok(Event::Text(text)) => Some(Ok(text)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Only the ids of the tokens.
    pub fn tokens(self) -> impl Iterator<Item = Result<u32, GenerateError>> + 's {
        self.filter_map(|event| match event {
            Ok(Event::Token { id, .. }) => Some(Ok(id)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// The outcome. A generation that has not ended is cancelled: its outcome has the reason
    /// [`crate::StopReason::Cancelled`] and all tokens so far, including those whose events were not returned yet. A
    /// generation that ended in its last step keeps its own reason.
    ///
    /// # Errors
    /// The error that ended the generation. If the iterator has already returned it, an error that says so.
    pub fn into_outcome(mut self) -> Result<Outcome, GenerateError> {
        self.cancel();
        self.result.take().unwrap_or_else(|| {
            Err(GenerateError::Options(
                "the generation failed, and its iterator has already returned the error".to_owned(),
            ))
        })
    }

    fn cancel(&mut self) {
        if self.generation.is_some() {
            self.end(Ok(StopReason::Cancelled));
        }
    }

    /// Takes one row of the newest step, or computes one step of the generation.
    fn advance(&mut self) {
        let Some(generation) = &mut self.generation else { return };
        let Session { scheduler, sequence, .. } = &mut *self.session;
        let mut ending = generation.is_cancelled().then_some(Ok(StopReason::Cancelled));
        if ending.is_none() {
            let step = match self.rest.take().or_else(|| sequence.take_known_logits()) {
                Some(step) => step,
                None => {
                    generation.propose(scheduler, sequence);
                    scheduler.step(&mut [&mut *sequence], generation.cancel_flag().map(|flag| &**flag))
                }
            };
            let sink = &mut |event| self.pending.push_back(event);
            self.rest = step.turn(&mut |_, output| {
                let advanced =
                    output.and_then(|output| generation.advance(scheduler, sequence, output, sink));
                ending = advanced.transpose();
                ending.is_none() && sequence.has_next_row()
            });
        }
        if let Some(ending) = ending {
            self.end(ending);
        }
    }

    fn end(&mut self, ending: Result<StopReason, GenerateError>) {
        let Some(mut generation) = self.generation.take() else { return };
        let pending = &mut self.pending;
        let Session { scheduler, sequence, .. } = &mut *self.session;
        let ending = ending.and_then(|reason| scheduler.settle(sequence).map(|()| reason));
        let result = generation.finish(ending, sequence, &mut |event| pending.push_back(event));
        generation.report(&result);
        self.result = Some(result);
    }
}

/// Makes the sequence of a session hold a prompt, and creates the generation that answers it.
fn begin(session: &mut Session, prompt: Prompt, request: &Request) -> Result<Box<Generation>, GenerateError> {
    let Session { scheduler, sequence, factory } = session;
    let (prompt, splitter) = prompt.encoded(factory.tokenizer())?;
    let generation = factory.generation(scheduler, request, splitter)?;
    sequence.set_priority(request.priority);
    scheduler.set_salt(sequence, request.cache_salt.as_ref())?;
    scheduler.adapt(sequence, &request.adapters)?;
    scheduler.begin_request(sequence, &prompt, request)?;
    Ok(Box::new(generation.with_noted_start()))
}

impl Iterator for Events<'_> {
    type Item = Result<Event, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(Ok(event));
            }
            if self.generation.is_none() {
                let error = self.result.take_if(|result| result.is_err());
                return error.and_then(Result::err).map(Err);
            }
            self.advance();
        }
    }
}

impl Drop for Events<'_> {
    /// Cancels a generation that has not ended. If the caller panics, lifecycles see it abandoned instead.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.cancel();
        }
    }
}
