//! [`PullLines`]: a download as lines of JSON.

use super::line_writer::ollama_error;
use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::puller::{PullEnd, PullState};
use axum::body::Bytes;
use futures_core::Stream;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// The least time between two lines.
const PAUSE: Duration = Duration::from_millis(100);

/// A download that a client waits for.
pub(crate) struct PullWatch {
    app: Arc<ServerApp>,
    state: watch::Receiver<PullState>,
}

impl PullWatch {
    pub(crate) fn new(app: Arc<ServerApp>, state: watch::Receiver<PullState>) -> Self {
        Self { app, state }
    }

    /// The next line, and whether it is the last one.
    async fn next(mut self) -> (Option<Self>, Value) {
        if self.state.changed().await.is_err() && self.state.borrow().end.is_none() {
            return (None, ollama_error(&ApiFault::of_panic("the thread of the download ended")));
        }
        let state = self.state.borrow_and_update().clone();
        match state.end {
            None => {
                sleep(PAUSE).await;
                (Some(self), line_of(&state))
            }
            Some(end) => (None, self.ended(end).await.unwrap_or_else(|fault| ollama_error(&fault))),
        }
    }

    /// The end of the download: the model is among those of the server.
    async fn ended(&self, end: PullEnd) -> Result<Value, ApiFault> {
        match end {
            PullEnd::Done => {
                self.app.models.reload().await?;
                Ok(json!({ "status": "success" }))
            }
            PullEnd::Failed(reason) => Err(ApiFault::new(500, reason).with_code("pull_failed")),
            PullEnd::Unwanted => {
                Err(ApiFault::new(500, "the download was stopped; send the request again: it goes on"))
            }
        }
    }

    /// The end of the download as one answer.
    pub(crate) async fn whole(mut self) -> Result<Value, ApiFault> {
        let end = self.state.wait_for(|state| state.end.is_some()).await.map(|state| state.end.clone());
        match end {
            Ok(Some(end)) => self.ended(end).await,
            _ => Err(ApiFault::of_panic("the thread of the download ended")),
        }
    }
}

/// A line about a step.
fn line_of(state: &PullState) -> Value {
    let mut line = json!({ "status": state.step });
    if let Some(total) = state.total {
        (line["total"], line["completed"]) = (total.into(), state.done.into());
    }
    line
}

/// The line that is being waited for.
type NextLine = Pin<Box<dyn Future<Output = (Option<PullWatch>, Value)> + Send>>;

/// The lines of a download. When they are dropped, the client does not wait for it any more.
pub(crate) struct PullLines(Option<NextLine>);

impl PullLines {
    pub(crate) fn new(watch: PullWatch) -> Self {
        Self(Some(Box::pin(watch.next())))
    }
}

impl Stream for PullLines {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        let Some(next) = &mut self.0 else { return Poll::Ready(None) };
        next.as_mut().poll(context).map(|(watch, line)| {
            self.0 = watch.map(|watch| Box::pin(watch.next()) as NextLine);
            Some(Ok(Bytes::from(format!("{line}\n"))))
        })
    }
}
