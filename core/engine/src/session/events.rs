//! [`Events`]: a generation as an iterator over what happens in it.

use crate::batch::{Job, Queue, Ticket};
use crate::error::GenerateError;
use crate::request::{Event, EventResponse, Outcome};
use std::collections::VecDeque;

/// Hands events to a callback until there are none, or the callback stops them.
///
/// # Errors
/// The generation's, which is the last of its events.
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

/// A generation as an iterator: each call of `next` computes as far as the next [`Event`]. An error is the last item.
///
/// [`Self::into_outcome`] gives the outcome. A generation that is not over then, or when this is dropped, is cancelled, and
/// the session can be used again at once.
pub struct Events<'s> {
    queue: Queue<'s>,
    ticket: Ticket,
    /// Events of the last step that nobody has seen yet.
    pending: VecDeque<Event>,
    result: Option<Result<Outcome, GenerateError>>,
}

impl<'s> Events<'s> {
    /// The events of one job, in a queue of its own.
    pub(crate) fn new(mut queue: Queue<'s>, job: Job<'s>) -> Self {
        let ticket = queue.lend(job);
        Self { queue, ticket, pending: VecDeque::new(), result: None }
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

    /// The outcome. A generation that is not over ends here: its outcome says [`crate::StopReason::Cancelled`] and has the
    /// tokens so far, those whose events nobody has seen included. One that ended by itself in its last step keeps its reason.
    ///
    /// # Errors
    /// What ended the generation, unless the iterator has given it already: then that it has.
    pub fn into_outcome(mut self) -> Result<Outcome, GenerateError> {
        self.stop();
        self.result.take().unwrap_or_else(|| {
            Err(GenerateError::Options(
                "the generation failed, and its error was the last of its events".to_owned(),
            ))
        })
    }

    fn stop(&mut self) {
        if !self.queue.is_idle() {
            self.queue.cancel(self.ticket);
            self.advance();
        }
    }

    fn advance(&mut self) {
        let mut note = |_, event| self.pending.push_back(event);
        self.queue.begin_step(&mut note);
        if self.pending.is_empty() {
            self.queue.compute_step(&mut |_, event| self.pending.push_back(event));
        }
        for (_, result) in self.queue.take_ended() {
            self.result = Some(result);
        }
    }
}

impl Iterator for Events<'_> {
    type Item = Result<Event, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                return Some(Ok(event));
            }
            if self.queue.is_idle() {
                let failed = self.result.take_if(|result| result.is_err());
                return failed.and_then(Result::err).map(Err);
            }
            self.advance();
        }
    }
}

impl Drop for Events<'_> {
    /// Cancels what is not over; of one whose caller panics, hooks are told that it was abandoned.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}
