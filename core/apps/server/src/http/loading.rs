//! Streams whose model is being opened: comments, then the answer.

use super::stream_faults::StreamFaults;
use crate::deadline::RequestDeadline;
use crate::fault::ApiFault;
use crate::observer::RequestAnswers;
use crate::slots::LoadingModel;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// The time between two comments.
const COMMENT: Duration = Duration::from_secs(1);

/// The answer to a request, when it begins.
type LaterAnswer = Pin<Box<dyn Future<Output = Result<Response, ApiFault>> + Send>>;

/// A stream of events that begins at once: with comments while a model is opened, then with the events of `answer`, or
/// with its error.
pub(crate) fn stream_after_load(
    model: LoadingModel,
    faults: StreamFaults,
    answer: impl Future<Output = Result<Response, ApiFault>> + Send + 'static,
) -> Response {
    let mut tick = interval(COMMENT);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let part = BodyPart::Waiting(Box::pin(RequestDeadline::carry(RequestAnswers::carry(answer))));
    event_response("text/event-stream", Body::from_stream(LoadingBody { model, faults, part, tick }))
}

/// An answer that is sent event by event.
pub(crate) fn event_response(kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // nginx would collect the events.
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// The body of such a stream. When it is dropped, the request is cancelled.
struct LoadingBody {
    model: LoadingModel,
    faults: StreamFaults,
    part: BodyPart,
    tick: Interval,
}

enum BodyPart {
    Waiting(LaterAnswer),
    Answer(BodyDataStream),
    Over,
}

impl LoadingBody {
    fn comment(&self) -> Bytes {
        let LoadingModel { id, meter } = &self.model;
        // A comment is one line, whatever the name of a file is.
        let id: String = id.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        Bytes::from(format!(": loading {id} {} %\n\n", meter.percent()))
    }
}

impl Stream for LoadingBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.part {
                BodyPart::Waiting(answer) => match answer.as_mut().poll(context) {
                    Poll::Ready(Ok(response)) => {
                        self.part = BodyPart::Answer(response.into_body().into_data_stream());
                    }
                    Poll::Ready(Err(fault)) => {
                        self.part = BodyPart::Over;
                        return Poll::Ready(Some(Ok(Bytes::from(self.faults.event(&fault)))));
                    }
                    Poll::Pending => {
                        return self.tick.poll_tick(context).map(|_| Some(Ok(self.comment())));
                    }
                },
                BodyPart::Answer(body) => return Pin::new(body).poll_next(context),
                BodyPart::Over => return Poll::Ready(None),
            }
        }
    }
}
