//! [`AccessRecord`]: a request for the log and the counters, until its answer is sent or its client is gone.

use crate::app::ServerApp;
use crate::observer::{FinishedRequest, ObservedRequest, RequestAnswers};
use crate::options::LogFormat;
use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use futures_core::Stream;
use serde_json::json;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The address of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// The status of a request whose client left before the answer was complete (nginx's number).
const CLIENT_LEFT: u16 = 499;

/// A request that is being answered.
pub(super) struct AccessRecord {
    app: Arc<ServerApp>,
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) route: String,
    pub(super) peer: Option<SocketAddr>,
    /// The number of the client's key.
    pub(super) key: Option<u64>,
    start: Instant,
    status: u16,
    bytes: u64,
    is_sent: bool,
    observed: Option<ObservedAccess>,
}

/// A request that is observed.
struct ObservedAccess {
    request: Box<dyn ObservedRequest>,
    answers: Arc<RequestAnswers>,
    start: SystemTime,
}

impl AccessRecord {
    pub(super) fn new(app: &Arc<ServerApp>, id: String, headers: &HeaderMap) -> Self {
        app.open.fetch_add(1, Ordering::Relaxed);
        Self {
            app: Arc::clone(app),
            id,
            method: String::new(),
            path: String::new(),
            route: String::new(),
            peer: None,
            key: None,
            start: Instant::now(),
            status: CLIENT_LEFT,
            bytes: 0,
            is_sent: false,
            observed: app.options.observer.as_ref().map(|observer| ObservedAccess {
                request: observer.begin(headers),
                answers: Arc::default(),
                start: SystemTime::now(),
            }),
        }
    }

    /// The times of its answers, if it is observed.
    pub(super) fn answers(&self) -> Option<Arc<RequestAnswers>> {
        self.observed.as_ref().map(|observed| Arc::clone(&observed.answers))
    }

    /// The header `traceparent` of its answer.
    pub(super) fn trace_parent(&self) -> Option<HeaderValue> {
        self.observed.as_ref()?.request.trace_parent()
    }

    /// Tells the observer of the end.
    fn observe(&mut self) {
        let status = self.status();
        let Some(ObservedAccess { mut request, answers, start }) = self.observed.take() else { return };
        request.end(&FinishedRequest {
            id: &self.id,
            method: &self.method,
            route: &self.route,
            status,
            start,
            end: start + self.start.elapsed(),
            started: self.start,
            answers: answers.all(),
        });
    }

    /// Follows an answer to its end.
    pub(super) fn follow(mut self, response: Response) -> Response {
        self.status = response.status().as_u16();
        // A body of a known size is in memory: it is sent as a whole.
        if let Some(bytes) = response.body().size_hint().exact() {
            self.bytes = bytes;
            self.is_sent = true;
            return response;
        }
        response.map(|body| Body::from_stream(FollowedBody { body: body.into_data_stream(), record: self }))
    }

    fn line(&self) -> Option<String> {
        let status = self.status();
        let millis = self.start.elapsed().as_secs_f64() * 1000.0;
        match self.app.options.log {
            LogFormat::Off => None,
            LogFormat::Text => {
                let Self { method, path, bytes, id, .. } = self;
                Some(format!("{method} {path} {status} {millis:.1} ms {bytes} bytes {id}"))
            }
            LogFormat::Json => {
                let now =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
                let round = |value: f64| (value * 1000.0).round() / 1000.0;
                let line = json!({
                    "time": round(now), "id": self.id, "method": self.method, "path": self.path, "status": status,
                    "ms": round(millis), "bytes": self.bytes, "key": self.key,
                    "peer": self.peer.map(|peer| peer.ip().to_string()),
                });
                Some(line.to_string())
            }
        }
    }

    fn status(&self) -> u16 {
        if self.is_sent { self.status } else { CLIENT_LEFT }
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        self.app.open.fetch_sub(1, Ordering::Relaxed);
        self.app.counters.count(&self.route, self.status());
        if let Some(line) = self.line() {
            (self.app.options.sink)(&line);
        }
        self.observe();
    }
}

/// A body whose end is recorded.
struct FollowedBody {
    body: BodyDataStream,
    record: AccessRecord,
}

impl Stream for FollowedBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<Option<Self::Item>> {
        let next = Pin::new(&mut self.body).poll_next(context);
        match &next {
            Poll::Ready(Some(Ok(bytes))) => self.record.bytes += bytes.len() as u64,
            Poll::Ready(None) => self.record.is_sent = true,
            _ => {}
        }
        next
    }
}
