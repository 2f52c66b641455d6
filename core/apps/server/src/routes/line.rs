//! Lines of batches: the same requests as over HTTP, answered whole.

use super::answers::{begin_answers, whole};
use super::requester::Requester;
use super::responses::begin_response;
use super::vectors::embedding_answer;
use crate::app::ServerApp;
use crate::fault::ApiFault;
use menagerie_openai::{AnswerFormat, LineFault};
use serde_json::{Map, Value};

/// A route that lines of a batch may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchEndpoint {
    /// Chat completions.
    Chat,
    /// Completions.
    Completion,
    /// Vectors.
    Vectors,
    /// Responses.
    Response,
}

impl BatchEndpoint {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Chat, Self::Completion, Self::Vectors, Self::Response];

    /// Its path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completion => "/v1/completions",
            Self::Vectors => "/v1/embeddings",
            Self::Response => "/v1/responses",
        }
    }

    /// The one with this path.
    pub(crate) fn of(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|endpoint| endpoint.path() == path)
    }
}

/// The body of the answer to a line with these fields. Dropping the future cancels it.
pub(crate) async fn line_answer(
    app: &ServerApp,
    endpoint: BatchEndpoint,
    fields: Map<String, Value>,
    requester: Requester,
) -> Result<Value, ApiFault> {
    if fields.get("stream").is_some_and(|stream| *stream != false && !stream.is_null()) {
        return Err(LineFault::of("stream", "an answer to a line is whole; leave it out").into());
    }
    let format = match endpoint {
        BatchEndpoint::Vectors => return Ok(embedding_answer(app, fields, requester).await?.0),
        BatchEndpoint::Response => {
            let begun = begin_response(app, fields, requester).await?;
            return whole(begun.answering, Box::new(begun.writer)).await;
        }
        BatchEndpoint::Chat => AnswerFormat::Chat,
        BatchEndpoint::Completion => AnswerFormat::Completion,
    };
    let begun = begin_answers(app, fields, format, requester).await?;
    whole(begun.answering, Box::new(begun.writer)).await
}
