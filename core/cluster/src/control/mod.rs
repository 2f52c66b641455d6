//! Requests to a stage and their answers: JSON in queries of zenoh.

mod open;

pub(crate) use open::{OpenRequest, differences, fields_of};

use crate::error::ClusterError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::query::{ConsolidationMode, Query, QueryTarget};

/// Version of the requests.
pub(crate) const PROTOCOL: u32 = 1;

pub(crate) const VERB_DESCRIBE: &str = "describe";
pub(crate) const VERB_OPEN: &str = "open";
pub(crate) const VERB_DRAIN: &str = "drain";

/// Most bytes of a request or an answer.
const MOST_BYTES: usize = 1 << 20;

/// Most answers to a request.
const MOST_ANSWERS: usize = 4096;

/// Why a stage does not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusedRequest {
    pub(crate) reason: String,
    /// Whether it may succeed soon.
    pub(crate) is_temporary: bool,
}

impl RefusedRequest {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_temporary: false }
    }

    pub(crate) fn temporary(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_temporary: true }
    }
}

/// Reads JSON that another node sent.
pub(crate) fn read_json<T: DeserializeOwned>(bytes: &ZBytes) -> Result<T, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("{} bytes are too large for a request (at most {MOST_BYTES})", bytes.len()));
    }
    serde_json::from_slice(&bytes.to_bytes()).map_err(|error| format!("not a known request: {error}"))
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, ClusterError> {
    serde_json::to_vec(value).map_err(|error| ClusterError::network("cannot write a request", error))
}

/// The answers of all nodes to a request without contents. Answers that cannot be read are left out.
pub(crate) fn answers_of<T: DeserializeOwned>(
    session: &zenoh::Session,
    key: &str,
    within: Duration,
) -> Result<Vec<T>, ClusterError> {
    let asked = session
        .get(key)
        .target(QueryTarget::All)
        .consolidation(ConsolidationMode::None)
        .timeout(within)
        .wait();
    let replies =
        asked.map_err(|error| ClusterError::network("cannot ask the nodes of the cluster", error))?;
    let (by, mut answers) = (Instant::now() + within, Vec::new());
    while let Ok(Some(reply)) = replies.recv_deadline(by) {
        let Ok(sample) = reply.result() else { continue };
        if answers.len() == MOST_ANSWERS {
            break;
        }
        match read_json(sample.payload()) {
            Ok(answer) => answers.push(answer),
            Err(detail) => tracing::warn!(key = sample.key_expr().as_str(), detail, "an answer is left out"),
        }
    }
    Ok(answers)
}

/// Sends a request to one node and waits for its answer.
pub(crate) fn request_of(
    session: &zenoh::Session,
    key: &str,
    request: &impl Serialize,
    within: Duration,
) -> Result<(), RefusedRequest> {
    let failed =
        |error: &dyn std::fmt::Display| RefusedRequest::temporary(format!("it cannot be asked: {error}"));
    let payload = to_json(request).map_err(|error| failed(&error))?;
    let asked = session.get(key).payload(payload).timeout(within).wait();
    let replies = asked.map_err(|error| failed(&error))?;
    match replies.recv_deadline(Instant::now() + within) {
        Ok(Some(reply)) => match reply.result() {
            Ok(_) => Ok(()),
            Err(refused) => Err(read_json(refused.payload()).unwrap_or_else(RefusedRequest::new)),
        },
        Ok(None) => Err(RefusedRequest::temporary(format!("it has not answered for {} s", within.as_secs()))),
        Err(_) => Err(RefusedRequest::temporary("it is gone")),
    }
}

/// Answers a request under this key.
pub(crate) fn answer(query: &Query, key: &str, answer: &Result<impl Serialize, RefusedRequest>) {
    let sent = match answer {
        Ok(value) => match to_json(value) {
            Ok(bytes) => query.reply(key, bytes).wait(),
            Err(error) => query.reply_err(error.to_string()).wait(),
        },
        Err(refused) => match to_json(refused) {
            Ok(bytes) => query.reply_err(bytes).wait(),
            Err(error) => query.reply_err(error.to_string()).wait(),
        },
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "an answer was not sent");
    }
}
