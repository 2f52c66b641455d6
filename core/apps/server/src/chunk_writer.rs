//! [`ChunkWriter`]: changes of answers as the chunks of OpenAI's streams.

use crate::answer_fold::AnswerDelta;
use crate::answering::{AnswerChange, AnswerHead};
use menagerie_openai::{AnswerFormat, AnswerToken, chat_logprobs, completion_logprobs};
use serde_json::{Value, json};

/// Writes chunks.
pub(crate) struct ChunkWriter {
    head: AnswerHead,
    /// Whether a chunk with token counts follows the answers; the others then say that they have none.
    pub(crate) has_usage: bool,
    /// The text before each answer to a completion.
    echoes: Vec<Option<String>>,
    /// By answer: its characters so far, for the offsets of its tokens.
    characters: Vec<usize>,
}

impl ChunkWriter {
    /// A writer of as many answers as there are `echoes`.
    pub(crate) fn new(head: AnswerHead, has_usage: bool, echoes: Vec<Option<String>>) -> Self {
        let characters = vec![0; echoes.len()];
        Self { head, has_usage, echoes, characters }
    }

    /// The chunks at the beginning: the role, or the text of the prompt.
    pub(crate) fn begin(&mut self) -> Vec<Value> {
        let mut chunks = Vec::new();
        for choice in 0..self.echoes.len() {
            match self.head.format {
                AnswerFormat::Chat => {
                    chunks.push(self.delta(choice, json!({ "role": "assistant", "content": "" })));
                }
                AnswerFormat::Completion => {
                    if let Some(text) = self.echoes.get_mut(choice).and_then(Option::take) {
                        chunks.push(self.text(choice, &text, &[]));
                    }
                }
            }
        }
        chunks
    }

    /// The chunk of a change; some changes have none.
    pub(crate) fn change(&mut self, change: AnswerChange) -> Option<Value> {
        match (change, self.head.format) {
            (AnswerChange::Finish(choice, reason), format) => {
                let (name, value) = match format {
                    AnswerFormat::Chat => ("delta", json!({})),
                    AnswerFormat::Completion => ("text", json!("")),
                };
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
    pub(crate) fn usage(&self, usage: Value) -> Value {
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
            AnswerDelta::CallEnd { .. } | AnswerDelta::EndToken(_) => return None,
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
