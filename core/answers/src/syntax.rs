//! [`AnswerSyntax`]: what surrounds the parts of an answer in one conversation.

use crate::format::CallFormat;
use crate::tool::ToolSet;
use std::sync::Arc;

/// The tags around a reasoning block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReasoningTags {
    /// Opening tag.
    pub open: String,
    /// Closing tag.
    pub close: String,
}

impl ReasoningTags {
    /// The pair whose opening tag ends a rendered prompt: the answer then starts inside the block.
    pub fn left_open<'t>(tags: &'t [Self], prompt: &str) -> Option<&'t Self> {
        tags.iter().find(|tags| prompt.trim_end().ends_with(tags.open.trim_end()))
    }
}

/// The markers around text of the answer, which are not part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentTags {
    /// Opening marker.
    pub open: String,
    /// Closing marker; `None`: only the opening marker is removed.
    pub close: Option<String>,
    /// Whether the text of an answer is always behind this marker, so that a constrained answer begins behind it.
    pub answer: bool,
    /// Whether the model writes this marker between its reasoning and whatever follows.
    pub after_reasoning: bool,
}

/// The calls of an answer: their format, and the tools that may be called.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallSyntax {
    /// How the model writes calls.
    pub format: Arc<CallFormat>,
    /// The declared tools.
    pub tools: Arc<ToolSet>,
    /// Makes ids of calls differ between prompts, where the format has none of its own.
    pub salt: u64,
}

impl CallSyntax {
    /// Calls of these tools in this format.
    pub fn new(format: Arc<CallFormat>, tools: Arc<ToolSet>, salt: u64) -> Self {
        Self { format, tools, salt }
    }
}

/// What surrounds the parts of an answer. By default everything is text.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AnswerSyntax {
    /// Tags around reasoning.
    pub reasoning: Vec<ReasoningTags>,
    /// The pair that the prompt leaves open: the answer starts inside it.
    pub reasoning_open: Option<ReasoningTags>,
    /// Markers around text.
    pub content: Vec<ContentTags>,
    /// Calls; `None`: there are no tools, or calls stay text.
    pub calls: Option<CallSyntax>,
    /// The beginning of a marker with which the prompt ends.
    pub begun: String,
}

impl AnswerSyntax {
    /// Reasoning within these tags; everything else is text.
    pub fn of_reasoning(tags: Vec<ReasoningTags>) -> Self {
        Self { reasoning: tags, ..Self::default() }
    }

    /// The same with these markers around text.
    #[must_use]
    pub fn with_content(self, content: Vec<ContentTags>) -> Self {
        Self { content, ..self }
    }

    /// The same with calls.
    #[must_use]
    pub fn with_calls(self, calls: impl Into<Option<CallSyntax>>) -> Self {
        Self { calls: calls.into(), ..self }
    }

    /// The same for the answer to a prompt that ends with this text of the template: reasoning that the text leaves
    /// open, and the beginning of a marker at its end.
    #[must_use]
    pub fn after_prompt(self, end: &str) -> Self {
        let open = ReasoningTags::left_open(&self.reasoning, end).cloned();
        let begun = if open.is_some() { String::new() } else { self.begun_marker(end) };
        Self { reasoning_open: open, begun, ..self }
    }

    /// What the model writes between its reasoning and what follows.
    pub fn after_reasoning(&self) -> &str {
        self.content.iter().find(|tags| tags.after_reasoning).map_or("", |tags| &tags.open)
    }

    /// The marker behind which the text of an answer is; empty if there is none, or if it may be left out.
    pub fn answer_opening(&self) -> &str {
        self.content.iter().find(|tags| tags.answer).map_or("", |tags| &tags.open)
    }

    /// The longest end of `prompt` that is a proper beginning of the opening marker of a text, if there is a call with
    /// the same beginning (`>>>` before the recipient).
    fn begun_marker(&self, prompt: &str) -> String {
        let Some(calls) = &self.calls else { return String::new() };
        let starts = calls.format.start_words();
        let shared = |tags: &&ContentTags| starts.iter().any(|start| tags.open.starts_with(start.as_str()));
        let longest =
            self.content.iter().filter(shared).map(|tags| crate::literal::overlap(prompt, &tags.open));
        let length = longest.max().unwrap_or(0);
        prompt[prompt.len() - length..].to_owned()
    }

    /// Whether a text is part of a marker, so that a control token with this text belongs to the answer.
    pub(crate) fn is_marker(&self, text: &str) -> bool {
        let has = |marker: &str| marker.contains(text);
        !text.is_empty()
            && (self.reasoning.iter().any(|tags| has(&tags.open) || has(&tags.close))
                || self.content.iter().any(|tags| has(&tags.open) || tags.close.as_deref().is_some_and(has))
                || self.calls.as_ref().is_some_and(|calls| calls.format.texts().any(has)))
    }
}
