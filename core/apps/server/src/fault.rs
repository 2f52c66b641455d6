//! [`ApiFault`]: why a request has no answer. Its body is in OpenAI's format, unless the route is one of another interface
//! ([`FaultFormat`](crate::fault_format::FaultFormat)).

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use menagerie::engine::GenerateError;
use menagerie::open::stage_fault;
use menagerie::stages::StageFault;
use menagerie_openai::{LineFault, fault_of};
use serde_json::{Value, json};
use std::fmt::Display;
use std::time::Duration;

/// An error of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ApiFault {
    pub(crate) status: u16,
    pub(crate) message: String,
    kind: &'static str,
    /// The field that has the error.
    param: Option<String>,
    code: Option<&'static str>,
    /// More fields of the error.
    details: Vec<(&'static str, usize)>,
    /// Milliseconds after which the same request may succeed.
    retry_after: Option<u32>,
}

impl ApiFault {
    pub(crate) fn new(status: u16, message: impl Display) -> Self {
        let kind = match status {
            401 => "authentication_error",
            403 => "permission_error",
            429 => "rate_limit_error",
            ..500 => "invalid_request_error",
            _ => "server_error",
        };
        let (message, details) = (message.to_string(), Vec::new());
        Self { status, message, kind, param: None, code: None, details, retry_after: None }
    }

    pub(crate) fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) fn with_param(self, param: &str) -> Self {
        Self { param: Some(param.to_owned()), ..self }
    }

    pub(crate) fn with_retry_after(self, time: Duration) -> Self {
        Self { retry_after: u32::try_from(time.as_millis()).ok(), ..self }
    }

    fn with_detail(mut self, name: &'static str, value: usize) -> Self {
        self.details.push((name, value));
        self
    }

    /// The error of a prompt that is too long.
    fn too_long(message: &str, tokens: usize, context: usize) -> Self {
        let fault = Self::new(400, message).with_code("context_length_exceeded");
        fault.with_detail("n_prompt_tokens", tokens).with_detail("n_ctx", context)
    }

    /// Whether the same request may succeed soon.
    pub(crate) fn is_for_now(&self) -> bool {
        self.retry_after.is_some()
    }

    /// The server ends.
    pub(crate) fn shutting_down() -> Self {
        Self::new(503, "the server is shutting down; send the request again to another one, or later")
            .with_code("shutting_down")
            .with_retry_after(Duration::from_secs(5))
    }

    /// Stages of the model are gone, and were not restored. A later request tries again.
    fn of_stages(error: &GenerateError) -> Self {
        Self::new(503, error).with_code("stages_unavailable").with_retry_after(Duration::from_secs(5))
    }

    /// A thread of the server failed.
    pub(crate) fn of_panic(what: &str) -> Self {
        Self::new(500, format!("{what} (a defect: please report it)"))
    }

    /// The body of the answer.
    pub(crate) fn json(&self) -> Value {
        let mut error =
            json!({ "message": self.message, "type": self.kind, "param": self.param, "code": self.code });
        for (name, value) in &self.details {
            error[*name] = (*value).into();
        }
        json!({ "error": error })
    }
}

impl From<LineFault> for ApiFault {
    fn from(fault: LineFault) -> Self {
        Self { param: fault.field, ..Self::new(fault.status, fault.message) }
    }
}

impl From<GenerateError> for ApiFault {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::PromptTooLong { tokens, context } => {
                Self::too_long(&error.to_string(), tokens, context)
            }
            GenerateError::PastPositions { tokens, positions } => {
                Self::too_long(&error.to_string(), tokens, positions)
            }
            // The engine is cancelled only by clients that are gone, and at the end of the server.
            GenerateError::Cancelled => Self::shutting_down(),
            other if stage_fault(&other).is_some_and(StageFault::is_of_links) => Self::of_stages(&other),
            GenerateError::EmptyText | GenerateError::Missing(_) => Self::new(400, error),
            other => fault_of(other).into(),
        }
    }
}

impl IntoResponse for ApiFault {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.json().to_string()));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(millis) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(millis.div_ceil(1000)));
            headers.insert(HeaderName::from_static("retry-after-ms"), HeaderValue::from(millis));
        } else if self.status >= 500 {
            // Without this header clients send a request that fails like this up to three times.
            headers.insert(HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));
        }
        if self.status == 401 {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        // The gate writes the body in the format of the route.
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie::model::ModelError;
    use menagerie::stages::{FaultKind, StageName};

    #[test]
    fn a_body_has_all_keys_and_an_error_that_recurs_is_not_sent_again() {
        let fault = ApiFault::from(LineFault::of("top_p", "wrong"));
        let error = json!({
            "message": "top_p: wrong", "type": "invalid_request_error", "param": "top_p", "code": null,
        });
        assert_eq!(fault.json(), json!({ "error": error }));
        let long = ApiFault::from(GenerateError::PromptTooLong { tokens: 9, context: 8 });
        assert_eq!((long.status, &long.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
        assert_eq!(long.json()["error"]["n_prompt_tokens"], 9);
        let headers = |fault: ApiFault| fault.into_response().headers().clone();
        assert_eq!(headers(ApiFault::new(500, "x"))["x-should-retry"], "false");
        let later = headers(ApiFault::new(429, "x").with_retry_after(Duration::from_millis(1500)));
        assert_eq!(
            (&later["retry-after"], &later["retry-after-ms"]),
            (&"2".parse().unwrap(), &"1500".parse().unwrap())
        );
        assert!(!later.contains_key("x-should-retry"));
    }

    #[test]
    fn a_request_may_be_sent_again_if_stages_were_gone_but_not_if_they_failed() {
        let fault = |kind| {
            let stage = StageName { index: 1, first: 3, end: 6 };
            let fault =
                StageFault { kind, stage, request: 7, position: 0, rows: 4, detail: "is gone".to_owned() };
            ApiFault::from(GenerateError::from(ModelError::from(fault)))
        };
        let gone = fault(FaultKind::Closed);
        assert_eq!((gone.status, &gone.json()["error"]["code"]), (503, &json!("stages_unavailable")));
        assert_eq!(gone.json()["error"]["type"], "server_error");
        assert!(gone.message.contains("stage 1 (layers 3 to 5), request 7, positions 0 to 3"), "{gone:?}");
        assert_eq!(gone.into_response().headers()["retry-after"], "5");
        assert_eq!(fault(FaultKind::Execution).status, 500);
        let again = GenerateError::LostRepeatedly { times: 3, fault: "stage 1: is gone".to_owned() };
        assert_eq!(ApiFault::from(again).status, 500);
    }
}
