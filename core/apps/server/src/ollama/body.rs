//! [`OllamaBody`]: the body of `/api/chat` and of `/api/generate`.

use super::messages::{MessageReader, no_images};
use super::options::{in_own_terms, sampling_options};
use crate::fault::ApiFault;
use crate::object_fields::{IgnoredFields, ObjectFields};
use crate::reading_model::ReadingText;
use crate::reasoning_switch::{ReasoningSwitch, ReasoningWish};
use menagerie::engine::ChatMessage;
use menagerie_openai::{LineFault, PromptRequest, RequestBody};
use serde_json::{Map, Value, json};

/// Fields that change no answer: models stay loaded as long as the server decides.
const WITHOUT_EFFECT: [&str; 1] = ["keep_alive"];

/// What an answer continues.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OllamaPrompt {
    /// Nothing: the client wants the model to be loaded.
    Nothing,
    Messages(Vec<ChatMessage>),
    /// A text without a chat template.
    Raw(String),
    /// The texts around the answer.
    Around {
        before: String,
        after: String,
    },
}

/// A body that was read.
pub(crate) struct OllamaBody {
    pub(crate) prompt: OllamaPrompt,
    /// The options of the answer, as fields of a completion.
    options: Map<String, Value>,
    thinking: Option<ReasoningWish>,
    pub(crate) is_stream: bool,
    pub(crate) ignored: IgnoredFields,
}

impl OllamaBody {
    /// Reads every field of `/api/chat` but the model, which has this context.
    pub(crate) fn of_chat(fields: Map<String, Value>, context: usize) -> Result<Self, LineFault> {
        let mut body = ObjectFields::of_body(fields);
        let messages = body.list("messages")?.unwrap_or_default();
        let messages = MessageReader::default().conversation(messages)?;
        let prompt = match messages.is_empty() {
            true => OllamaPrompt::Nothing,
            false => OllamaPrompt::Messages(messages),
        };
        let mut options = Map::new();
        if let Some(tools) = body.list("tools")?.filter(|tools| !tools.is_empty()) {
            options.insert("tools".to_owned(), tools.into());
        }
        Self::rest(body, prompt, options, context)
    }

    /// Reads every field of `/api/generate` but the model, which has this context.
    pub(crate) fn of_generate(fields: Map<String, Value>, context: usize) -> Result<Self, LineFault> {
        let mut body = ObjectFields::of_body(fields);
        no_images(&mut body)?;
        let text = body.text("prompt")?.unwrap_or_default();
        let suffix = body.text("suffix")?.filter(|suffix| !suffix.is_empty());
        let system = body.text("system")?.filter(|system| !system.is_empty());
        let is_raw = body.flag("raw")?.unwrap_or(false);
        if system.is_some() && (is_raw || suffix.is_some()) {
            return Err(body.fault("system", "a prompt without a chat template has no system text"));
        }
        let prompt = match (suffix, is_raw) {
            (Some(after), _) => OllamaPrompt::Around { before: text, after },
            (None, _) if text.is_empty() => OllamaPrompt::Nothing,
            (None, true) => OllamaPrompt::Raw(text),
            (None, false) => {
                let system = system.map(ChatMessage::system);
                OllamaPrompt::Messages(system.into_iter().chain([ChatMessage::user(text)]).collect())
            }
        };
        Self::rest(body, prompt, Map::new(), context)
    }

    fn rest(
        mut body: ObjectFields,
        prompt: OllamaPrompt,
        mut options: Map<String, Value>,
        context: usize,
    ) -> Result<Self, LineFault> {
        let mut ignored = IgnoredFields::default();
        body.ignore(&WITHOUT_EFFECT, &mut ignored);
        sampling_options(&mut body, context, &mut options, &mut ignored)?;
        let format = match body.take("format") {
            None => None,
            Some(Value::String(text)) if text.is_empty() => None,
            Some(Value::String(text)) if text == "json" => Some(json!({ "type": "json_object" })),
            Some(schema @ Value::Object(_)) => {
                Some(json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema } }))
            }
            Some(_) => return Err(body.fault("format", "expected \"json\" or a JSON schema")),
        };
        if let Some(format) = format {
            options.insert("response_format".to_owned(), format);
        }
        let thinking = match body.take("think") {
            None => None,
            Some(Value::Bool(true)) => Some(ReasoningWish::On),
            Some(Value::Bool(false)) => Some(ReasoningWish::Off),
            Some(effort) => {
                let known = ["low", "medium", "high"].into_iter().find(|known| effort == *known);
                let reason = "expected true, false, \"low\", \"medium\" or \"high\"";
                Some(ReasoningWish::Effort(known.ok_or_else(|| body.fault("think", reason))?))
            }
        };
        let is_stream = body.flag("stream")?.unwrap_or(true);
        body.finish()?;
        Ok(Self { prompt, options, thinking, is_stream, ignored })
    }

    /// The prompt and the request for its answer.
    pub(crate) fn request(mut self, text: &ReadingText) -> Result<PromptRequest, ApiFault> {
        if let Some(wish) = self.thinking {
            let mut arguments = Map::new();
            let switch = ReasoningSwitch::of(&**text.chat_format()?, &text.service.render);
            switch.set(wish, &mut arguments).map_err(|reason| LineFault::of("think", reason))?;
            if !arguments.is_empty() {
                self.options.insert("chat_template_kwargs".to_owned(), arguments.into());
            }
        }
        let requests = text.requests();
        let request = match self.prompt {
            OllamaPrompt::Messages(messages) => {
                // A model without a template says so.
                text.chat_format()?;
                requests.conversation(RequestBody::new(self.options), &messages)
            }
            OllamaPrompt::Raw(prompt) => {
                self.options.insert("prompt".to_owned(), prompt.into());
                requests.completion(RequestBody::new(self.options))
            }
            OllamaPrompt::Around { before, after } => {
                self.options.insert("prompt".to_owned(), before.into());
                self.options.insert("suffix".to_owned(), after.into());
                requests.completion(RequestBody::new(self.options))
            }
            OllamaPrompt::Nothing => Err(LineFault::of("prompt", "expected a text")),
        };
        Ok(request.map_err(in_own_terms)?)
    }
}
