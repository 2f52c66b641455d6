//! [`OtlpClient`]: sends spans to a collector.

use crate::options::LogSink;
use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use ureq::Agent;

/// The most time of a request to the collector.
const TIME: Duration = Duration::from_secs(10);

/// A client for the thread that exports spans, which it may block.
pub(super) struct OtlpClient {
    agent: Agent,
    endpoint: String,
    log: LogSink,
    /// Whether the last request failed: a collector that is gone is logged once.
    has_failed: AtomicBool,
}

impl OtlpClient {
    pub(super) fn new(endpoint: String, log: LogSink) -> Self {
        let config = Agent::config_builder().timeout_global(Some(TIME)).http_status_as_error(false);
        Self { agent: config.build().into(), endpoint, log, has_failed: AtomicBool::new(false) }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let (head, mut body) = self.agent.run(Request::from_parts(head, body.to_vec()))?.into_parts();
        Ok(Response::from_parts(head, body.read_to_vec()?.into()))
    }

    /// Logs that the collector does not take spans, or takes them again.
    fn note(&self, fault: Option<String>) {
        let had_failed = self.has_failed.swap(fault.is_some(), Ordering::Relaxed);
        match fault {
            Some(fault) if !had_failed => {
                let said =
                    format!("spans are lost: {}: {fault}; requests are answered all the same", self.endpoint);
                (self.log)(&said);
            }
            None if had_failed => (self.log)(&format!("spans are exported to {} again", self.endpoint)),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for OtlpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(request);
        self.note(match &sent {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(format!("the collector answers {}", response.status())),
            Err(error) => Some(error.to_string()),
        });
        Ok(sent?)
    }
}

impl fmt::Debug for OtlpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpClient").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
