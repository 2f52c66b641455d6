//! [`EventStream`]: answers as the body of a response that is sent as they change.

use crate::answer_writer::AnswerWriter;
use crate::answering::{AnswerChange, Answering};
use crate::fault::ApiFault;
use axum::body::Bytes;
use futures_core::Stream;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// After this time without an event a comment is sent, so that no proxy thinks that the connection is dead.
const QUIET: Duration = Duration::from_secs(15);

/// The body of a stream. When it is dropped, the answers are cancelled.
pub(crate) struct EventStream {
    answering: Answering,
    writer: Box<dyn AnswerWriter>,
    /// Events that have not been sent.
    text: String,
    is_over: bool,
    quiet: Interval,
}

impl EventStream {
    /// A stream of answers of which these changes are known.
    pub(crate) fn new(
        answering: Answering,
        mut writer: Box<dyn AnswerWriter>,
        changes: Vec<AnswerChange>,
    ) -> Self {
        let mut text = String::new();
        writer.begin(&mut text);
        let mut quiet = interval(QUIET);
        quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick of an interval comes at once.
        quiet.reset();
        let mut stream = Self { answering, writer, text, is_over: false, quiet };
        stream.add(Ok(changes));
        stream
    }

    fn add(&mut self, changes: Result<Vec<AnswerChange>, ApiFault>) {
        match changes {
            Ok(changes) => {
                for change in changes {
                    self.writer.change(change, &self.answering, &mut self.text);
                }
            }
            Err(fault) => {
                self.writer.fault(&fault, &mut self.text);
                self.is_over = true;
            }
        }
        if self.answering.is_complete() && !self.is_over {
            self.writer.end(&self.answering, &mut self.text);
            self.is_over = true;
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        while !self.is_over {
            match self.answering.poll_next(context) {
                Poll::Ready(changes) => self.add(changes),
                Poll::Pending => break,
            }
        }
        if !self.text.is_empty() {
            self.quiet.reset();
            return Poll::Ready(Some(Ok(Bytes::from(std::mem::take(&mut self.text)))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        let waiting = self.writer.waiting();
        self.quiet.poll_tick(context).map(|_| Some(Ok(Bytes::from_static(waiting.as_bytes()))))
    }
}
