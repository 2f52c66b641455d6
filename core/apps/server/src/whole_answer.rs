//! [`WholeAnswer`]: the sum of the changes of answers, in OpenAI's JSON.

use crate::answer_fold::AnswerDelta;
use crate::answering::{AnswerChange, AnswerHead, Answering};
use menagerie_openai::{AnswerFormat, AnswerToken, chat_logprobs, completion_logprobs};
use serde_json::{Value, json};

/// Answers that are being put together.
pub(crate) struct WholeAnswer {
    head: AnswerHead,
    choices: Vec<WholeChoice>,
}

/// One of them.
#[derive(Default)]
struct WholeChoice {
    /// The text of the prompt, if the answer begins with it.
    echo: Option<String>,
    text: String,
    reasoning: String,
    tokens: Vec<AnswerToken>,
    calls: Vec<WholeCall>,
    finish: &'static str,
}

#[derive(Default)]
struct WholeCall {
    id: String,
    name: String,
    arguments: String,
    is_complete: bool,
}

impl WholeAnswer {
    /// As many answers as there are `echoes`, all empty.
    pub(crate) fn new(head: AnswerHead, echoes: Vec<Option<String>>) -> Self {
        let choice = |echo| WholeChoice { echo, ..WholeChoice::default() };
        Self { head, choices: echoes.into_iter().map(choice).collect() }
    }

    pub(crate) fn add(&mut self, change: AnswerChange) {
        let (AnswerChange::Delta(choice, _) | AnswerChange::Finish(choice, _)) = &change;
        let Some(choice) = self.choices.get_mut(*choice) else { return };
        match change {
            AnswerChange::Delta(_, delta) => choice.add(delta, self.head.format),
            AnswerChange::Finish(_, reason) => choice.finish = reason,
        }
    }

    /// The body of the answer.
    pub(crate) fn body(&self, answering: &Answering) -> Value {
        let AnswerHead { format, id, created, model } = &self.head;
        let object = match format {
            AnswerFormat::Chat => "chat.completion",
            AnswerFormat::Completion => "text_completion",
        };
        let choice = |(index, choice): (usize, &WholeChoice)| {
            let mut value = match format {
                AnswerFormat::Chat => choice.chat(),
                AnswerFormat::Completion => choice.completion(answering.prompt_tokens(index)),
            };
            value["index"] = index.into();
            value["finish_reason"] = choice.finish.into();
            value
        };
        let choices: Vec<Value> = self.choices.iter().enumerate().map(choice).collect();
        json!({
            "id": id, "object": object, "created": created, "model": model, "choices": choices,
            "usage": answering.usage(),
        })
    }
}

impl WholeChoice {
    fn add(&mut self, delta: AnswerDelta, format: AnswerFormat) {
        match delta {
            AnswerDelta::Text { text, tokens } => {
                self.text.push_str(&text);
                self.tokens.extend(tokens);
            }
            // The tokens of a message are those of its content.
            AnswerDelta::EndToken(token) => {
                self.tokens.extend(Some(token).filter(|_| format == AnswerFormat::Completion));
            }
            AnswerDelta::Reasoning(text) => match format {
                AnswerFormat::Chat => self.reasoning.push_str(&text),
                AnswerFormat::Completion => self.text.push_str(&text),
            },
            AnswerDelta::CallBegin { id, name, .. } => {
                self.calls.push(WholeCall { id, name, ..WholeCall::default() });
            }
            AnswerDelta::CallArguments { index, text } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.arguments.push_str(&text);
                }
            }
            AnswerDelta::CallEnd { index } => {
                if let Some(call) = self.calls.get_mut(index) {
                    call.is_complete = true;
                }
            }
        }
    }

    fn chat(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.text, "refusal": null });
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = self.reasoning.clone().into();
            message["reasoning"] = self.reasoning.clone().into();
        }
        let call = |call: &WholeCall| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        };
        let calls: Vec<Value> = self.calls.iter().filter(|call| call.is_complete).map(call).collect();
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
            if self.text.is_empty() {
                message["content"] = Value::Null;
            }
        }
        let logprobs = (!self.tokens.is_empty()).then(|| chat_logprobs(&self.tokens));
        json!({ "message": message, "logprobs": logprobs })
    }

    fn completion(&self, prompt: &[AnswerToken]) -> Value {
        let echo = self.echo.as_deref();
        // Only answers that begin with the prompt have its tokens.
        let prompt = if echo.is_some() { prompt } else { &[] };
        let is_shown = !self.tokens.is_empty() || !prompt.is_empty();
        let logprobs = is_shown.then(|| completion_logprobs(echo, prompt, &self.tokens));
        json!({ "text": format!("{}{}", echo.unwrap_or_default(), self.text), "logprobs": logprobs })
    }
}
