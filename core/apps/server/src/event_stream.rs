//! [`EventStream`]: answers as server-sent events.

use crate::answering::{AnswerChange, Answering};
use crate::chunk_writer::ChunkWriter;
use crate::fault::ApiFault;
use axum::body::Bytes;
use futures_core::Stream;
use serde_json::Value;
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
    writer: ChunkWriter,
    /// Events that have not been sent.
    text: String,
    is_over: bool,
    quiet: Interval,
}

impl EventStream {
    /// A stream of answers of which these changes are known.
    pub(crate) fn new(answering: Answering, mut writer: ChunkWriter, changes: Vec<AnswerChange>) -> Self {
        let mut text = String::new();
        writer.begin().iter().for_each(|chunk| event(&mut text, chunk));
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
                    if let Some(chunk) = self.writer.change(change) {
                        event(&mut self.text, &chunk);
                    }
                }
            }
            Err(fault) => {
                event(&mut self.text, &fault.json());
                self.is_over = true;
            }
        }
        if self.answering.is_complete() && !self.is_over {
            if self.writer.has_usage {
                event(&mut self.text, &self.writer.usage(self.answering.usage()));
            }
            self.text.push_str("data: [DONE]\n\n");
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
        self.quiet.poll_tick(context).map(|_| Some(Ok(Bytes::from_static(b": waiting\n\n"))))
    }
}

/// Adds an event with these data, which are one line.
fn event(text: &mut String, data: &Value) {
    text.push_str(&format!("data: {data}\n\n"));
}
