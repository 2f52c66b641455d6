//! [`FaultFormat`]: the body of an error in the format of the route.

use crate::answer_writer::add_event;
use crate::anthropic::{anthropic_error, anthropic_status};
use crate::fault::ApiFault;
use crate::ollama::ollama_error;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::Value;

/// Anthropic's clients send this header with every request.
pub(crate) const ANTHROPIC_VERSION: &str = "anthropic-version";
/// The id of a request in Anthropic's answers.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// The format of errors of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultFormat {
    /// OpenAI's, which is also the one of routes that belong to no interface.
    OpenAi,
    Anthropic,
    Ollama,
}

impl FaultFormat {
    /// The format of a request.
    pub(crate) fn of(path: &str, headers: &HeaderMap) -> Self {
        let route = path.strip_prefix("/v1").unwrap_or(path);
        if route == "/messages" || route.starts_with("/messages/") || headers.contains_key(ANTHROPIC_VERSION)
        {
            Self::Anthropic
        } else if path.starts_with("/api/") {
            Self::Ollama
        } else {
            Self::OpenAi
        }
    }

    /// An error at the end of a stream that has no answer yet.
    pub(crate) fn event(self, fault: &ApiFault, request_id: &str) -> String {
        let mut text = String::new();
        match self {
            Self::OpenAi => add_event(&mut text, None, &fault.json()),
            Self::Anthropic => add_event(&mut text, Some("error"), &anthropic_error(fault, request_id)),
            Self::Ollama => text = format!("{}\n", ollama_error(fault)),
        }
        text
    }

    /// Writes the body of an error in this format; other responses stay as they are. Some interfaces have a header for the
    /// id of the request.
    pub(crate) fn write(self, response: &mut Response, request_id: &str) {
        if self == Self::Anthropic
            && let Ok(id) = HeaderValue::from_str(request_id)
        {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        let Some(fault) = response.extensions_mut().remove::<ApiFault>() else { return };
        let body: Value = match self {
            Self::OpenAi => fault.json(),
            Self::Anthropic => {
                if let Ok(status) = StatusCode::from_u16(anthropic_status(&fault)) {
                    *response.status_mut() = status;
                }
                anthropic_error(&fault, request_id)
            }
            Self::Ollama => ollama_error(&fault),
        };
        response.headers_mut().remove(header::CONTENT_LENGTH);
        *response.body_mut() = Body::from(body.to_string());
    }
}
