//! [`CallSupport`]: the format of calls of a chat template, verified with the template itself.
//!
//! A conversation with calls and their results is rendered, and the calls are read back from what the template wrote.
//! Only if they are the same is the format used: a format that the template does not have would lose calls silently.

mod conversation;
mod error;

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use menagerie_answers::{
    AnswerEnd, AnswerParser, AnswerPart, AnswerSyntax, CallFormat, CallSyntax, ReasoningTags, ToolSet,
};
use serde_json::{Map, Value};

use crate::tables::TokenizerTables;
use crate::template::{ChatTemplate, RenderOptions};
use conversation::{ANSWER, ProbeConversation};
pub use error::CallSupportError;

/// How a chat template has tool calls.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CallSupport {
    /// The format in which the model writes them.
    pub format: Arc<CallFormat>,
    /// Whether messages must have the arguments as the text of an object, not as an object.
    pub arguments_as_text: bool,
}

/// Name and arguments of calls.
type Calls = Vec<(String, Map<String, Value>)>;

impl ChatTemplate {
    /// The format of calls of this template, verified with it.
    ///
    /// # Errors
    /// No entry of the tables fits the template, or several do; or the template loses tools, calls or results, or
    /// writes calls in another way than the entry says.
    pub fn call_support(&self, tables: &TokenizerTables) -> Result<CallSupport, CallSupportError> {
        let template = || self.name().to_owned();
        let format = match tables.calls_of(self.source()).as_slice() {
            [format] => Arc::clone(format),
            [] => return Err(CallSupportError::Unknown { template: template() }),
            several => {
                let names = several.iter().map(|format| format!("`{}`", format.name())).collect::<Vec<_>>();
                return Err(CallSupportError::Several { template: template(), names: names.join(", ") });
            }
        };
        let probe =
            CallProbe { template: self, syntax: tables.answer_syntax(self.source()), format: &format };
        match probe.check(false) {
            Ok(()) => Ok(CallSupport { format, arguments_as_text: false }),
            Err(error) => match probe.check(true) {
                Ok(()) => Ok(CallSupport { format, arguments_as_text: true }),
                Err(_) => Err(error),
            },
        }
    }
}

/// The verification of a format.
struct CallProbe<'a> {
    template: &'a ChatTemplate,
    syntax: AnswerSyntax,
    format: &'a Arc<CallFormat>,
}

impl CallProbe<'_> {
    /// Checks one form of arguments with one call and, if the format allows it, with two.
    fn check(&self, as_text: bool) -> Result<(), CallSupportError> {
        let most = if self.format.keys().single { 1 } else { 2 };
        (1..=most).try_for_each(|count| {
            let conversation = ProbeConversation::new(self.format, count, as_text);
            self.check_calls(&conversation)?;
            self.check_rest(&conversation)
        })
    }

    fn render(&self, messages: &[Value], generation_prompt: bool) -> Result<String, CallSupportError> {
        let options = RenderOptions::default()
            .with_tools(conversation::tools())
            .with_add_generation_prompt(generation_prompt)
            .with_now(UNIX_EPOCH);
        self.template
            .render(messages, &options)
            .map_err(|error| self.lost("a conversation with calls", &error.to_string()))
    }

    fn lost(&self, what: &str, found: &str) -> CallSupportError {
        CallSupportError::Lost {
            template: self.template.name().to_owned(),
            format: self.format.name().to_owned(),
            what: what.to_owned(),
            found: shortened(found),
        }
    }

    /// Checks that the calls are read back from what the template writes, at the end of a conversation or before the
    /// results.
    fn check_calls(&self, conversation: &ProbeConversation) -> Result<(), CallSupportError> {
        let with_calls = self.check_written(conversation, &conversation.with_calls());
        match with_calls {
            Ok(()) => Ok(()),
            Err(error) => self.check_written(conversation, &conversation.with_results()).map_err(|_| error),
        }
    }

    fn check_written(
        &self,
        conversation: &ProbeConversation,
        messages: &[Value],
    ) -> Result<(), CallSupportError> {
        let written = self.render(messages, false)?;
        let expected = conversation.expected();
        let mut first: Option<(String, Calls)> = None;
        for answer in self.answers(conversation, &written)? {
            let found = self.read(&answer)?;
            if found == expected {
                return Ok(());
            }
            first.get_or_insert((answer.text.to_owned(), found));
        }
        let (text, found) = first.unwrap_or_default();
        Err(CallSupportError::Differs {
            template: self.template.name().to_owned(),
            format: self.format.name().to_owned(),
            written: shortened(&text),
            found: in_words(&found),
            expected: in_words(&expected),
        })
    }

    /// Where the answer may begin in a conversation: after the prompt for it; where it differs from a conversation
    /// with a text as the answer; where it differs from the conversation before it.
    fn answers<'t>(
        &self,
        conversation: &ProbeConversation,
        written: &'t str,
    ) -> Result<Vec<Answer<'t>>, CallSupportError> {
        let mut answers = Vec::new();
        let prompt = self.render(&conversation.question(), true)?;
        if let Some(text) = written.strip_prefix(&prompt) {
            answers.push(Answer { text, syntax: self.syntax.clone().after_prompt(&prompt) });
        }
        let inside = |start: usize| {
            let end = &written[..start];
            let open = ReasoningTags::left_open(&self.syntax.reasoning, end).cloned();
            let mut syntax = self.syntax.clone();
            syntax.reasoning_open = open;
            Answer { text: &written[start..], syntax }
        };
        let text_answer = self.render(&conversation.with_text(), false).ok();
        if let Some((before, _)) = text_answer.as_deref().and_then(|text| text.split_once(ANSWER)) {
            answers.push(inside(common(before, written)));
        }
        let question = self.render(&conversation.question(), false)?;
        answers.push(inside(common(&question, written)));
        Ok(answers)
    }

    /// The calls of an answer.
    fn read(&self, answer: &Answer<'_>) -> Result<Calls, CallSupportError> {
        let tools = ToolSet::new(&conversation::tools())
            .map_err(|error| self.lost("the tools", &error.to_string()))?;
        let calls = CallSyntax::new(Arc::clone(self.format), Arc::new(tools), 0);
        let mut parser = AnswerParser::new(&answer.syntax.clone().with_calls(calls));
        let mut parts = parser.push(answer.text);
        parts.extend(parser.finish(AnswerEnd::Model));
        let call = |part: AnswerPart| match part {
            AnswerPart::CallEnd { call, .. } => Some((call.name.clone(), call.object().unwrap_or_default())),
            _ => None,
        };
        Ok(parts.into_iter().filter_map(call).collect())
    }

    /// Checks that the template shows the tools and the results of calls.
    fn check_rest(&self, conversation: &ProbeConversation) -> Result<(), CallSupportError> {
        let prompt = self.render(&conversation.question(), true)?;
        for text in conversation::DESCRIPTIONS {
            if !prompt.contains(text) {
                return Err(self.lost("the tools", &prompt));
            }
        }
        let whole = self.render(&conversation.with_results(), true)?;
        match conversation.results().iter().all(|result| whole.contains(result)) {
            true => Ok(()),
            false => Err(self.lost("results of calls", &whole)),
        }
    }
}

/// A text that may be an answer, and what the prompt before it leaves open.
struct Answer<'t> {
    text: &'t str,
    syntax: AnswerSyntax,
}

/// The bytes that two texts have in common at their beginnings.
fn common(one: &str, other: &str) -> usize {
    let pairs = one.char_indices().zip(other.chars());
    let differs = pairs.clone().find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    differs.unwrap_or_else(|| pairs.map(|((at, a), _)| at + a.len_utf8()).last().unwrap_or(0))
}

/// A text with its middle left out, in one line.
fn shortened(text: &str) -> String {
    const MOST: usize = 480;
    let characters: Vec<char> = text.trim().chars().collect();
    let short: String = match characters.len() {
        0..=MOST => characters.into_iter().collect(),
        length => {
            let (head, tail) = (&characters[..MOST / 2], &characters[length - MOST / 2..]);
            head.iter().chain(&[' ', '…', ' ']).chain(tail).collect()
        }
    };
    format!("{short:?}")
}

fn in_words(calls: &Calls) -> String {
    if calls.is_empty() {
        return "no call".to_owned();
    }
    let call = |(name, arguments): &(String, Map<String, Value>)| {
        format!("{name}({})", Value::Object(arguments.clone()))
    };
    calls.iter().map(call).collect::<Vec<_>>().join(", ")
}
