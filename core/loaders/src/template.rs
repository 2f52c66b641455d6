//! Chat templates: messages to prompt text, as transformers renders them.

mod budget;
mod clock;
mod environment;
mod error;
mod filters;
mod json;
mod literal;
mod marks;
mod operations;
mod program;
mod slicing;
mod source;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use minijinja::{Error, ErrorKind, Value};

pub use error::TemplateError;

use crate::segment::Segment;
use budget::RenderBudget;
use environment::TemplateException;
use marks::{Extent, Marker};
use program::Program;

/// Input of a template besides the messages.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RenderOptions {
    /// Tool descriptions (JSON schema objects, as transformers passes them); `None` means no tools, which is not an
    /// empty list.
    pub tools: Option<Vec<serde_json::Value>>,
    /// Whether the prompt ends where the assistant's turn begins. Default true.
    pub add_generation_prompt: bool,
    /// Variables of this template, such as `enable_thinking`.
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// The time for `strftime_now`, in UTC.
    pub now: SystemTime,
}

impl RenderOptions {
    /// The same with this [`Self::tools`].
    #[must_use]
    pub fn with_tools(self, tools: impl Into<Option<Vec<serde_json::Value>>>) -> Self {
        Self { tools: tools.into(), ..self }
    }

    /// The same with this [`Self::add_generation_prompt`].
    #[must_use]
    pub fn with_add_generation_prompt(self, add_generation_prompt: bool) -> Self {
        Self { add_generation_prompt, ..self }
    }

    /// The same with this [`Self::extra`].
    #[must_use]
    pub fn with_extra(self, extra: serde_json::Map<String, serde_json::Value>) -> Self {
        Self { extra, ..self }
    }

    /// The same with this [`Self::now`].
    #[must_use]
    pub fn with_now(self, now: SystemTime) -> Self {
        Self { now, ..self }
    }
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            tools: None,
            add_generation_prompt: true,
            extra: serde_json::Map::new(),
            now: SystemTime::now(),
        }
    }
}

/// A chat template. Its output and time are limited, because it comes with a file: a rendering that doubles a text
/// without end fails within seconds, and uses at most 64 MiB plus 64 bytes for each byte of input.
pub struct ChatTemplate {
    name: String,
    source: String,
    /// The source as passed to minijinja.
    rewritten: String,
    bos: Option<String>,
    eos: Option<String>,
}

impl ChatTemplate {
    /// Checks a template; `bos` and `eos` are the texts of `bos_token` and `eos_token`, undefined where `None`.
    /// `name` is for messages.
    ///
    /// # Errors
    /// The source is not a valid template, or never mentions `messages`, so that the conversation would be dropped.
    pub fn new(
        name: &str,
        source: &str,
        bos: Option<&str>,
        eos: Option<&str>,
    ) -> Result<Self, TemplateError> {
        let template = Self::fragment(name, source, bos, eos);
        if !template.compile()?.mentions_messages() {
            return Err(TemplateError::NoMessages { template: name.to_owned() });
        }
        Ok(template)
    }

    /// A template that is not checked.
    fn fragment(name: &str, source: &str, bos: Option<&str>, eos: Option<&str>) -> Self {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            rewritten: source::rewrite(source),
            bos: owned(bos),
            eos: owned(eos),
        }
    }

    fn compile(&self) -> Result<Program<'_>, TemplateError> {
        let compiled =
            environment::syntax().and_then(|syntax| Program::compile(&self.name, &self.rewritten, syntax));
        compiled.map_err(|error| TemplateError::Syntax {
            template: self.name.clone(),
            line: error.line(),
            problem: words(&error),
        })
    }

    /// The name given to [`Self::new`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The template's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt for a conversation.
    ///
    /// # Errors
    /// The template refuses the conversation (`raise_exception`), fails on it, or exceeds its limits.
    pub fn render(
        &self,
        messages: &[serde_json::Value],
        options: &RenderOptions,
    ) -> Result<String, TemplateError> {
        self.render_with(messages, options.tools.as_deref(), options)
    }

    /// The prompt in parts, so that text from outside cannot contain special tokens.
    ///
    /// `guarded` are the texts of the special tokens ([`crate::Tokenizer::guarded_texts`]). Contents of messages and
    /// tool descriptions are untrusted. The template renders texts in which a mark follows each character; if this
    /// changes its output (because it looks for words in the contents), only parts that are or could become a special
    /// token are marked. The parts together are always the text of [`Self::render`].
    ///
    /// # Errors
    /// The errors of [`Self::render`]; and a conversation for which no marking gives that text, because the template
    /// splits messages at a special token.
    pub fn render_segments(
        &self,
        messages: &[serde_json::Value],
        options: &RenderOptions,
        guarded: &[&str],
    ) -> Result<Vec<Segment>, TemplateError> {
        let tools = options.tools.as_deref();
        let plain = self.render_with(messages, tools, options)?;
        let sources: Vec<String> = messages
            .iter()
            .chain(tools.unwrap_or_default())
            .map(ToString::to_string)
            .chain([plain.clone()])
            .collect();
        let all = sources.iter().map(String::as_str).chain([self.source.as_str()]);
        let untrusted =
            |token: &str| TemplateError::Untrusted { template: self.name.clone(), token: token.to_owned() };
        let marker = Marker::new(guarded, all).ok_or_else(|| untrusted("\u{E000}"))?;
        for extent in [Extent::Contents, Extent::Tokens] {
            let tools = tools.map(|tools| marker.tools(tools, extent));
            let marked = self.render_with(&marker.messages(messages, extent), tools.as_deref(), options);
            if let Ok(marked) = marked
                && marker.strip(&marked) == plain
            {
                return Ok(marker.segments(&marked));
            }
        }
        let token = marker.first_token(messages).or_else(|| marker.first_token(tools.unwrap_or_default()));
        Err(untrusted(token.or(guarded.first().copied()).unwrap_or_default()))
    }

    fn render_with(
        &self,
        messages: &[serde_json::Value],
        tools: Option<&[serde_json::Value]>,
        options: &RenderOptions,
    ) -> Result<String, TemplateError> {
        let now = options.now;
        let strftime = move |format: &str| {
            clock::strftime(format, now).map_err(|problem| Error::new(ErrorKind::InvalidOperation, problem))
        };
        let mut variables: Vec<(&str, Value)> = vec![
            ("messages", list(messages)),
            ("tools", tools.map_or(Value::from(()), list)),
            ("documents", Value::from(())),
            ("add_generation_prompt", Value::from(options.add_generation_prompt)),
            ("strftime_now", Value::from_function(strftime)),
        ];
        for (name, token) in [("bos_token", &self.bos), ("eos_token", &self.eos)] {
            variables.extend(token.as_deref().map(|token| (name, Value::from(token))));
        }
        variables.extend(options.extra.iter().map(|(name, value)| (name.as_str(), convert(value))));
        let given = messages.iter().chain(tools.unwrap_or_default()).map(weight).sum();
        let environment = environment::build(&Arc::new(RenderBudget::new(given)));
        self.compile()?.run(&environment, Value::from_pairs(variables)).map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &Error) -> TemplateError {
        let (template, line) = (self.name.clone(), error.line());
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(current) = cause {
            if let Some(TemplateException(message)) = current.downcast_ref() {
                return TemplateError::Raised { template, line, message: message.clone() };
            }
            cause = current.source();
        }
        TemplateError::Render { template, line, problem: words(error) }
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChatTemplate({}, {} bytes)", self.name, self.source.len())
    }
}

/// The message of an error, without its position.
fn words(error: &Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}

/// The approximate size of a JSON value in bytes.
fn weight(value: &serde_json::Value) -> u64 {
    match value {
        serde_json::Value::String(text) => text.len() as u64,
        serde_json::Value::Array(items) => items.iter().map(weight).sum::<u64>() + 1,
        serde_json::Value::Object(map) => {
            map.iter().map(|(key, value)| key.len() as u64 + weight(value)).sum()
        }
        _ => 1,
    }
}

fn list(values: &[serde_json::Value]) -> Value {
    values.iter().map(convert).collect()
}

/// A JSON value as a template sees it.
fn convert(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(flag) => Value::from(*flag),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), _, _) => Value::from(integer),
            (_, Some(integer), _) => Value::from(integer),
            (_, _, real) => Value::from(real.unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => items.iter().map(convert).collect(),
        serde_json::Value::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (key.as_str(), convert(value))))
        }
    }
}
