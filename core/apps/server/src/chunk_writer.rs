//! [`ChunkWriter`]: chat completions and completions in OpenAI's format.

use crate::answer_fold::AnswerDelta;
use crate::answer_times::{AnswerTimes, outcome_timings};
use crate::answer_writer::{AnswerWriter, add_event};
use crate::answering::{AnswerChange, AnswerHead, Answering};
use crate::fault::ApiFault;
use crate::whole_answer::{WholeAnswer, WholeCall, WholeChoice};
use menagerie_openai::{AnswerFormat, AnswerToken, chat_logprobs, completion_logprobs, finish_reason};
use serde_json::{Value, json};

/// What chunks say besides the answer, as llama-server does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkReports {
    /// A chunk for each part of the prompt.
    pub(crate) progress: bool,
    /// Counts and times in each chunk, and in a whole answer.
    pub(crate) timings: bool,
}

/// Writes chunks, or a whole answer.
pub(crate) struct ChunkWriter {
    head: AnswerHead,
    /// Whether a chunk with token counts follows the answers; the others then say that they have none.
    has_usage: bool,
    reports: ChunkReports,
    /// The text before each answer to a completion.
    echoes: Vec<Option<String>>,
    /// By answer: its characters so far, for the offsets of its tokens.
    characters: Vec<usize>,
}

impl ChunkWriter {
    /// A writer of as many answers as there are `echoes`.
    pub(crate) fn new(head: AnswerHead, has_usage: bool, echoes: Vec<Option<String>>) -> Self {
        let characters = vec![0; echoes.len()];
        Self { head, has_usage, reports: ChunkReports::default(), echoes, characters }
    }

    /// The same with these reports.
    pub(crate) fn with_reports(self, reports: ChunkReports) -> Self {
        Self { reports, ..self }
    }

    /// The chunk of a change with its reports; some changes have none.
    fn reported(&mut self, change: AnswerChange, answering: &Answering) -> Option<Value> {
        let choice = match &change {
            AnswerChange::Delta(choice, _) | AnswerChange::Finish(choice) => *choice,
        };
        if let AnswerChange::Delta(_, AnswerDelta::Prompt { at, .. }) = change {
            let times = answering.times(choice).filter(|_| self.reports.progress)?;
            let mut chunk = self.empty(choice);
            chunk["prompt_progress"] = times.progress(at);
            return Some(chunk);
        }
        let mut chunk = self.chunk_of(change, answering)?;
        if self.reports.timings {
            chunk["timings"] = timings(choice, answering);
        }
        Some(chunk)
    }

    /// A chunk without a change.
    fn empty(&mut self, choice: usize) -> Value {
        match self.head.format {
            AnswerFormat::Chat => self.delta(choice, json!({})),
            AnswerFormat::Completion => self.text(choice, "", &[]),
        }
    }

    /// The chunk of a change; some changes have none.
    fn chunk_of(&mut self, change: AnswerChange, answering: &Answering) -> Option<Value> {
        match (change, self.head.format) {
            (AnswerChange::Finish(choice), format) => {
                let (name, value) = match format {
                    AnswerFormat::Chat => ("delta", json!({})),
                    AnswerFormat::Completion => ("text", json!("")),
                };
                let reason = answering.outcome(choice).map(finish_reason);
                let mut chunk = json!({ "index": choice, "logprobs": null, "finish_reason": reason });
                chunk[name] = value;
                Some(self.chunk(json!([chunk])))
            }
            (AnswerChange::Delta(choice, delta), AnswerFormat::Chat) => self.chat(choice, delta),
            (AnswerChange::Delta(choice, delta), AnswerFormat::Completion) => match delta {
                AnswerDelta::Text { text, tokens } => Some(self.text(choice, &text, &tokens)),
                AnswerDelta::EndToken(token) => Some(self.text(choice, "", &[token])),
                AnswerDelta::Reasoning(text) => Some(self.text(choice, &text, &[])),
                // A completion declares no tools.
                _ => None,
            },
        }
    }

    /// The chunk with the token counts.
    fn usage(&self, usage: Value) -> Value {
        let mut chunk = self.chunk(json!([]));
        chunk["usage"] = usage;
        chunk
    }

    fn chat(&self, choice: usize, delta: AnswerDelta) -> Option<Value> {
        Some(match delta {
            AnswerDelta::Text { text, tokens } => {
                let mut chunk = self.delta(choice, json!({ "content": text }));
                if !tokens.is_empty() {
                    chunk["choices"][0]["logprobs"] = chat_logprobs(&tokens);
                }
                chunk
            }
            AnswerDelta::Reasoning(text) => {
                self.delta(choice, json!({ "reasoning_content": text, "reasoning": text }))
            }
            AnswerDelta::CallBegin { index, id, name } => {
                // Clients concatenate what is repeated, so that id and name come once, without arguments.
                let function = json!({ "name": name, "arguments": "" });
                let call = json!({ "index": index, "id": id, "type": "function", "function": function });
                self.delta(choice, json!({ "tool_calls": [call] }))
            }
            AnswerDelta::CallArguments { index, text } => {
                let call = json!({ "index": index, "function": { "arguments": text } });
                self.delta(choice, json!({ "tool_calls": [call] }))
            }
            AnswerDelta::CallEnd { .. } | AnswerDelta::EndToken(_) | AnswerDelta::Prompt { .. } => {
                return None;
            }
        })
    }

    fn delta(&self, choice: usize, delta: Value) -> Value {
        self.chunk(json!([{ "index": choice, "delta": delta, "logprobs": null, "finish_reason": null }]))
    }

    fn text(&mut self, choice: usize, text: &str, tokens: &[AnswerToken]) -> Value {
        let before = self.characters.get(choice).copied().unwrap_or(0);
        if let Some(characters) = self.characters.get_mut(choice) {
            *characters += text.chars().count();
        }
        let mut logprobs = Value::Null;
        if !tokens.is_empty() {
            logprobs = completion_logprobs(None, &[], tokens);
            let offsets = logprobs["text_offset"].as_array_mut();
            for offset in offsets.into_iter().flatten() {
                *offset = (offset.as_u64().unwrap_or(0) + before as u64).into();
            }
        }
        self.chunk(json!([{ "index": choice, "text": text, "logprobs": logprobs, "finish_reason": null }]))
    }

    fn chunk(&self, choices: Value) -> Value {
        let AnswerHead { format, id, created, model } = &self.head;
        let object = match format {
            AnswerFormat::Chat => "chat.completion.chunk",
            AnswerFormat::Completion => "text_completion",
        };
        let mut chunk =
            json!({ "id": id, "object": object, "created": created, "model": model, "choices": choices });
        if self.has_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }
}

impl AnswerWriter for ChunkWriter {
    /// The role, or the text of the prompt.
    fn begin(&mut self, text: &mut String) {
        for choice in 0..self.echoes.len() {
            match self.head.format {
                AnswerFormat::Chat => {
                    add_event(text, None, &self.delta(choice, json!({ "role": "assistant", "content": "" })));
                }
                AnswerFormat::Completion => {
                    if let Some(echo) = self.echoes.get_mut(choice).and_then(Option::take) {
                        add_event(text, None, &self.text(choice, &echo, &[]));
                    }
                }
            }
        }
    }

    fn change(&mut self, change: AnswerChange, answering: &Answering, text: &mut String) {
        if let Some(chunk) = self.reported(change, answering) {
            add_event(text, None, &chunk);
        }
    }

    fn end(&mut self, answering: &Answering, text: &mut String) {
        if self.has_usage {
            add_event(text, None, &self.usage(answering.usage()));
        }
        text.push_str("data: [DONE]\n\n");
    }

    fn fault(&mut self, fault: &ApiFault, text: &mut String) {
        add_event(text, None, &fault.json());
    }

    fn whole(&self, whole: &WholeAnswer, answering: &Answering) -> Value {
        let AnswerHead { format, id, created, model } = &self.head;
        let object = match format {
            AnswerFormat::Chat => "chat.completion",
            AnswerFormat::Completion => "text_completion",
        };
        let choice = |(index, choice): (usize, &WholeChoice)| {
            let mut value = match format {
                AnswerFormat::Chat => chat(choice),
                AnswerFormat::Completion => {
                    let echo = self.echoes.get(index).and_then(Option::as_deref);
                    completion(choice, echo, answering.prompt_tokens(index))
                }
            };
            value["index"] = index.into();
            value["finish_reason"] = json!(answering.outcome(index).map(finish_reason));
            if self.reports.timings && whole.choices.len() > 1 {
                value["timings"] = timings(index, answering);
            }
            value
        };
        let choices: Vec<Value> = whole.choices.iter().enumerate().map(choice).collect();
        let mut answer = json!({
            "id": id, "object": object, "created": created, "model": model, "choices": choices,
            "usage": answering.usage(),
        });
        if self.reports.timings && whole.choices.len() == 1 {
            answer["timings"] = timings(0, answering);
        }
        answer
    }
}

/// Counts and times of a choice, so far or whole.
fn timings(choice: usize, answering: &Answering) -> Value {
    match answering.outcome(choice) {
        Some(outcome) => outcome_timings(outcome),
        None => answering.times(choice).map(AnswerTimes::timings).unwrap_or_default(),
    }
}

fn chat(choice: &WholeChoice) -> Value {
    let WholeChoice { text, reasoning, tokens, .. } = choice;
    let mut message = json!({ "role": "assistant", "content": text, "refusal": null });
    if !reasoning.is_empty() {
        message["reasoning_content"] = json!(reasoning);
        message["reasoning"] = json!(reasoning);
    }
    let call = |call: &WholeCall| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "id": call.id, "type": "function", "function": function })
    };
    let calls: Vec<Value> = choice.complete_calls().map(call).collect();
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
        if text.is_empty() {
            message["content"] = Value::Null;
        }
    }
    // The tokens of a message are those of its content.
    let logprobs = (!tokens.is_empty()).then(|| chat_logprobs(tokens));
    json!({ "message": message, "logprobs": logprobs })
}

fn completion(choice: &WholeChoice, echo: Option<&str>, prompt: &[AnswerToken]) -> Value {
    // Only answers that begin with the prompt have its tokens.
    let prompt = if echo.is_some() { prompt } else { &[] };
    let tokens: Vec<AnswerToken> = choice.tokens.iter().chain(&choice.end_token).cloned().collect();
    let is_shown = !tokens.is_empty() || !prompt.is_empty();
    let logprobs = is_shown.then(|| completion_logprobs(echo, prompt, &tokens));
    // A completion has no reasoning of its own: it is part of the text.
    json!({ "text": format!("{}{}", echo.unwrap_or_default(), choice.all_text), "logprobs": logprobs })
}
