//! [`Task`]: what a queue is to do.

use crate::capability::Tokenizing;
use crate::error::GenerateError;
use crate::prompt::Prompt;
use crate::reasoning::ReasoningSplitter;
use crate::request::Request;

/// What a queue is to do.
#[derive(Clone, Debug)]
pub struct Task {
    prompt: Prompt<'static>,
    request: Request,
    priority: i32,
}

/// A task as a queue keeps it.
pub(crate) struct TokenTask {
    pub(crate) prompt: Vec<u32>,
    pub(crate) request: Request,
    pub(crate) splitter: ReasoningSplitter,
    pub(crate) priority: i32,
}

impl Task {
    /// Continues `prompt`: text, tokens or a rendered conversation.
    pub fn new(prompt: impl Into<Prompt<'static>>, request: Request) -> Self {
        Self { prompt: prompt.into(), request, priority: 0 }
    }

    /// The same with a priority; 0 unless told otherwise, more is more urgent.
    #[must_use]
    pub fn with_priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// With the tokens of its prompt.
    ///
    /// # Errors
    /// As [`Prompt::encoded`].
    pub(crate) fn encoded(self, tokenizer: Option<&dyn Tokenizing>) -> Result<TokenTask, GenerateError> {
        let Self { prompt, request, priority } = self;
        let (prompt, splitter) = prompt.encoded(tokenizer)?;
        Ok(TokenTask { prompt: prompt.into_owned(), request, splitter, priority })
    }
}
