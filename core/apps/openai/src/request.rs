//! [`RequestReader`]: from a body, or a line of a batch, to requests for the queue.

use crate::body::{LineFault, RequestBody, UNSUPPORTED_FIELD};
use crate::call_choice::CallChoice;
use crate::effort::with_effort;
use crate::harmless_fields::take_harmless;
use crate::infill::InfillTexts;
use crate::messages::{messages_of, prompt_fault};
use crate::prediction::predicted;
use crate::response_format::{AskedForm, ResponseFormats, end_ignored};
use crate::tool_fields::template_fields;
use menagerie::engine::{ChatCapable, ChatMessage, Prompt, RenderOptions, Request, TextPipeline};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Makes requests of bodies, and of lines of a batch.
pub struct RequestReader<'a> {
    /// The model.
    pub pipeline: &'a TextPipeline,
    /// The chat template; without one, plain prompts are continued as text.
    pub format: Option<&'a Arc<dyn ChatCapable>>,
    /// Values of fields that a body leaves out. Their flag also ends the wait for the constraint of a body.
    pub defaults: Request,
    /// Tools and variables of the chat template.
    pub render: RenderOptions,
    /// Number of answers to a body without the field `n`.
    pub answers: usize,
    /// Constraints of answers.
    pub formats: Arc<ResponseFormats>,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// A message.
    Chat,
    /// Text.
    Completion,
}

/// A prompt, and a request for each answer to it.
pub struct PromptRequest {
    /// The form of the answers.
    pub shape: AnswerFormat,
    /// The prompt.
    pub prompt: Prompt<'static>,
    /// The text of the prompt, if answers begin with it. The first request then reports the tokens of the prompt, if log
    /// probabilities are requested.
    pub echo: Option<String>,
    /// A request for each answer.
    pub answers: Vec<Request>,
    /// Fields that change nothing with this chat template.
    pub ignored: Vec<String>,
}

impl PromptRequest {
    /// The tokens of the prompt.
    pub fn tokens(&self) -> &[u32] {
        match &self.prompt {
            Prompt::Tokens(tokens) => tokens,
            Prompt::Rendered(rendered) => &rendered.tokens,
            // Prompts are tokenized when they are read.
            _ => &[],
        }
    }
}

/// What a body asks for.
struct AskedPrompt {
    shape: AnswerFormat,
    prompt: Prompt<'static>,
    /// The text of the prompt, if answers begin with it.
    echo: Option<String>,
    /// Which tools the answer may or must call; `None` without tools.
    calls: Option<CallChoice>,
    /// Fields that change nothing with this chat template.
    ignored: Vec<String>,
}

/// Maximum number of answers to one prompt; each answer is a sequence.
const MOST_ANSWERS: usize = 128;

impl RequestReader<'_> {
    /// The requests of a line; `None` is a line that is not JSON.
    ///
    /// # Errors
    /// What is wrong in the line, or not supported.
    pub fn of(&self, line: Option<Value>) -> Result<PromptRequest, LineFault> {
        let fields = match line {
            None => return Err(LineFault::whole("the line is not JSON")),
            Some(Value::String(text)) => Map::from_iter([("prompt".to_owned(), Value::String(text))]),
            Some(Value::Object(fields)) => fields,
            Some(other) => {
                let reason = format!("the line is {other}; expected a JSON object or a JSON string");
                return Err(LineFault::whole(reason));
            }
        };
        match fields.contains_key("url") || fields.contains_key("body") {
            true => self.openai(fields),
            false => self.plain(fields),
        }
    }

    /// A line in the format of OpenAI's batches.
    fn openai(&self, fields: Map<String, Value>) -> Result<PromptRequest, LineFault> {
        let (url, body) = opened(fields)?;
        match url.as_str() {
            "/v1/chat/completions" => self.chat(body),
            "/v1/completions" => self.completion(body),
            other => Err(LineFault::of(
                "url",
                format!(
                    "`{other}` is not supported, only /v1/chat/completions, /v1/completions and /v1/embeddings"
                ),
            )),
        }
    }

    /// A line in the short format: `prompt` or `messages`, and the fields of a body.
    fn plain(&self, mut fields: Map<String, Value>) -> Result<PromptRequest, LineFault> {
        fields.remove("custom_id");
        take_harmless(&mut fields)?;
        let mut body = RequestBody::new(fields);
        match (body.has("messages"), body.has("prompt")) {
            (true, false) => self.chat(body),
            (false, true) => {
                let Some(text) = body.text("prompt").filter(|_| self.format.is_some()) else {
                    return self.completion(body);
                };
                body.take("prompt");
                let asked = self.rendered(&mut body, &[ChatMessage::user(&text)])?;
                self.prompt_request(body, asked)
            }
            (true, true) => {
                Err(LineFault::of("prompt", "the line has messages too; give only one of the two"))
            }
            (false, false) => Err(LineFault::whole("the line has neither prompt nor messages")),
        }
    }

    /// The request of the body of a chat completion.
    ///
    /// # Errors
    /// A field has an error or is not supported, or the model has no chat template.
    pub fn chat(&self, mut body: RequestBody) -> Result<PromptRequest, LineFault> {
        let messages = body.take("messages").unwrap_or_default();
        self.conversation(body, &messages_of(&messages)?)
    }

    /// The request of a conversation whose messages were read already; the body has the other fields of a chat completion.
    ///
    /// # Errors
    /// As [`Self::chat`].
    pub fn conversation(
        &self,
        mut body: RequestBody,
        messages: &[ChatMessage],
    ) -> Result<PromptRequest, LineFault> {
        let asked = self.rendered(&mut body, messages)?;
        self.prompt_request(body, asked)
    }

    /// The request of the body of a completion.
    ///
    /// # Errors
    /// A field has an error or is not supported, or the prompt cannot be tokenized.
    pub fn completion(&self, mut body: RequestBody) -> Result<PromptRequest, LineFault> {
        let asked = self.completion_prompt(&mut body)?;
        self.prompt_request(body, asked)
    }

    fn rendered(&self, body: &mut RequestBody, messages: &[ChatMessage]) -> Result<AskedPrompt, LineFault> {
        let Some(format) = self.format else {
            return Err(LineFault::of("messages", "the model has no chat template, or --raw disables it"));
        };
        let mut options = self.render.clone();
        let calls = template_fields(body, &mut options)?;
        if options.continue_final_message && AskedForm::is_in(body) {
            let reason = "a constrained answer begins at its beginning; it cannot continue a message";
            return Err(LineFault::of("continue_final_message", reason));
        }
        let render = |options: &RenderOptions| {
            format.render_prompt(messages, options).map_err(|error| prompt_fault(&error))
        };
        let (prompt, mut ignored) = (render(&options)?, Vec::new());
        let prompt = match with_effort(body, &options)?.map(|with| render(&with)).transpose()? {
            None => prompt,
            Some(with) => {
                if with.tokens == prompt.tokens {
                    ignored.push("reasoning_effort".to_owned());
                }
                with
            }
        };
        let prompt = prompt.into();
        Ok(AskedPrompt { shape: AnswerFormat::Chat, prompt, echo: None, calls, ignored })
    }

    /// The prompt of a completion, and its text if `echo` is true.
    fn completion_prompt(&self, body: &mut RequestBody) -> Result<AskedPrompt, LineFault> {
        if let Some(after) = body.take("suffix") {
            return self.infill_prompt(body, &after);
        }
        let given = body.text("prompt");
        let prompt = self.text_prompt(body)?;
        let echo = body.flag("echo")?.unwrap_or(false).then(|| match (given, &prompt) {
            (None, Prompt::Tokens(ids)) => self.decoded(ids),
            (given, _) => Ok(given.unwrap_or_default()),
        });
        let (shape, echo) = (AnswerFormat::Completion, echo.transpose()?);
        Ok(AskedPrompt { shape, prompt, echo, calls: None, ignored: Vec::new() })
    }

    /// The prompt of a completion between two texts.
    fn infill_prompt(&self, body: &mut RequestBody, after: &Value) -> Result<AskedPrompt, LineFault> {
        let after = after.as_str().ok_or_else(|| LineFault::of("suffix", "expected a string"))?;
        let Some(Value::String(before)) = body.take("prompt") else {
            return Err(LineFault::of("prompt", "expected a string, because there is a suffix"));
        };
        if body.flag("echo")? == Some(true) {
            return Err(LineFault::of("echo", "an answer with a suffix does not begin with its prompt"));
        }
        let tokenizer = self.pipeline.tokenizer().map_err(|error| LineFault::of("prompt", error))?;
        let texts = InfillTexts { before, after: after.to_owned(), files: Vec::new() };
        let prompt = texts.prompt(&**tokenizer, "suffix")?.into();
        let (shape, ignored) = (AnswerFormat::Completion, Vec::new());
        Ok(AskedPrompt { shape, prompt, echo: None, calls: None, ignored })
    }

    /// The text of token ids.
    fn decoded(&self, ids: &[u32]) -> Result<String, LineFault> {
        let tokenizer = self.pipeline.tokenizer().map_err(|error| LineFault::of("echo", error))?;
        let mut stream = tokenizer.stream();
        let texts = ids.iter().map(|id| stream.push(*id)).collect::<Result<String, _>>();
        Ok(texts.map_err(|error| LineFault::of("prompt", error))? + &stream.finish())
    }

    /// `prompt`: a string or token ids.
    fn text_prompt(&self, body: &mut RequestBody) -> Result<Prompt<'static>, LineFault> {
        let wrong = |reason: &str| LineFault::of("prompt", reason);
        match body.take("prompt") {
            Some(Value::String(text)) => {
                let tokenizer = self.pipeline.tokenizer().map_err(|error| LineFault::of("prompt", error))?;
                let tokens = tokenizer.encode_prompt(&text);
                Ok(tokens.map_err(|error| LineFault::of("prompt", error))?.into())
            }
            Some(Value::Array(ids)) => {
                let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
                let ids: Option<Vec<u32>> = ids.iter().map(id).collect();
                ids.map(Prompt::from)
                    .ok_or_else(|| wrong("expected a string or a list of token ids (one prompt per line)"))
            }
            _ => Err(wrong("expected a string or a list of token ids")),
        }
    }

    /// One request for each answer; the answers have consecutive seeds.
    fn prompt_request(&self, mut body: RequestBody, asked: AskedPrompt) -> Result<PromptRequest, LineFault> {
        let AskedPrompt { shape, prompt, echo, calls, ignored } = asked;
        let mut request = body.request(&self.defaults)?;
        let logprobs = match shape {
            AnswerFormat::Chat => body.chat_logprobs()?,
            AnswerFormat::Completion => body.count("logprobs")?,
        };
        request.logprobs = logprobs.or(request.logprobs);
        if shape == AnswerFormat::Chat {
            request.draft = predicted(&mut body, self.pipeline, request.draft)?;
        }
        request.constraint = match (&calls, &prompt) {
            (Some(choice), Prompt::Rendered(rendered)) => {
                self.formats.calls(&mut body, choice, &rendered.syntax, &request)?
            }
            _ => match self.formats.constraint(&mut body, request.cancel.as_ref())? {
                Some(_) if request.ignore_eos => return Err(end_ignored()),
                constraint => constraint,
            },
        };
        let answers = body.count("n")?.unwrap_or(self.answers);
        if !(1..=MOST_ANSWERS).contains(&answers) {
            return Err(LineFault::of(
                "n",
                format!("{answers} answers; the number must be from 1 to {MOST_ANSWERS}"),
            ));
        }
        let priority = body.take("priority").map(|value| value.as_i64().ok_or(value)).transpose();
        let priority =
            priority.map_err(|value| LineFault::of("priority", format!("{value} is not a whole number")))?;
        let priority = priority.unwrap_or(0).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
        body.finish()?;
        let answer = |answer: usize| {
            let mut request = request.clone().with_priority(priority);
            // All answers have the same prompt.
            let scores = echo.is_some() && request.logprobs.is_some() && answer == 0;
            request.prompt_logprobs = scores.then_some(0);
            request.sampling.seed = request.sampling.seed.map(|seed| seed.wrapping_add(answer as u64));
            request
        };
        let answers = (0..answers).map(answer).collect();
        Ok(PromptRequest { shape, prompt, echo, answers, ignored })
    }
}

/// The `url` and the body of a line in the format of OpenAI's batches: `custom_id`, `method`, `url`, `body`.
///
/// # Errors
/// A field is missing or not supported.
pub fn opened(fields: Map<String, Value>) -> Result<(String, RequestBody), LineFault> {
    let (url, mut body) = opened_fields(fields)?;
    // They change nothing, and a batch has no place for a note.
    take_harmless(&mut body)?;
    Ok((url, RequestBody::new(body)))
}

/// As [`opened`], with every field of the body.
///
/// # Errors
/// As [`opened`].
pub fn opened_fields(mut fields: Map<String, Value>) -> Result<(String, Map<String, Value>), LineFault> {
    if fields.get("custom_id").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(LineFault::of("custom_id", "expected a string, which identifies the answer"));
    }
    if fields.get("method").is_some_and(|method| method != "POST") {
        return Err(LineFault::of("method", "only POST is supported"));
    }
    let url = fields.get("url").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(Value::Object(body)) = fields.remove("body") else {
        return Err(LineFault::of("body", "expected an object"));
    };
    if let Some(name) = fields.keys().find(|name| !["custom_id", "method", "url"].contains(&name.as_str())) {
        return Err(LineFault::of(name, UNSUPPORTED_FIELD));
    }
    Ok((url, body))
}
