//! [`LineWriter`]: answers as lines of JSON.

use super::names::shown_name;
use crate::answer_fold::AnswerDelta;
use crate::answer_writer::AnswerWriter;
use crate::answering::{AnswerChange, Answering};
use crate::fault::ApiFault;
use crate::utc_time::UtcTime;
use crate::whole_answer::WholeAnswer;
use menagerie::engine::{Outcome, StopReason};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// The route that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OllamaRoute {
    /// A message.
    Chat,
    /// Text.
    Generate,
}

/// Writes the one answer of a request.
pub(crate) struct LineWriter {
    kind: OllamaRoute,
    model: String,
    started: Instant,
    /// The time in which the request waited for its model.
    loading: Duration,
    /// The call that has begun: its id, its tool, its arguments.
    call: Option<(String, String, String)>,
}

impl LineWriter {
    /// A writer for a model, whose request arrived at that time, and waited for its model as long.
    pub(crate) fn new(kind: OllamaRoute, model: &str, started: Instant, loading: Duration) -> Self {
        Self { kind, model: shown_name(model), started, loading, call: None }
    }

    /// An answer without text: the model is loaded.
    pub(crate) fn loaded(&self) -> Value {
        let mut line = self.line("", None, Vec::new());
        line["done"] = true.into();
        line["done_reason"] = "load".into();
        line
    }

    /// A line with some of the answer.
    fn line(&self, text: &str, reasoning: Option<&str>, calls: Vec<Value>) -> Value {
        let created = UtcTime::now().to_string();
        let mut line = json!({ "model": self.model, "created_at": created });
        let mut parts = Map::new();
        let name = match self.kind {
            OllamaRoute::Chat => "content",
            OllamaRoute::Generate => "response",
        };
        if self.kind == OllamaRoute::Chat {
            parts.insert("role".to_owned(), "assistant".into());
        }
        parts.insert(name.to_owned(), text.into());
        if let Some(reasoning) = reasoning {
            parts.insert("thinking".to_owned(), reasoning.into());
        }
        if !calls.is_empty() {
            parts.insert("tool_calls".to_owned(), calls.into());
        }
        match (self.kind, &mut line) {
            (OllamaRoute::Generate, Value::Object(line)) => line.extend(parts),
            (_, line) => line["message"] = parts.into(),
        }
        line["done"] = false.into();
        line
    }

    /// Adds the end of an answer to its last line.
    fn finish(&self, line: &mut Value, outcome: &Outcome) {
        let statistics = &outcome.statistics;
        line["done"] = true.into();
        line["done_reason"] = match outcome.reason {
            StopReason::MaxTokens | StopReason::ContextFull => "length",
            _ => "stop",
        }
        .into();
        line["total_duration"] = nanoseconds(self.started.elapsed());
        line["load_duration"] = nanoseconds(self.loading);
        line["prompt_eval_count"] = statistics.prompt_tokens.into();
        line["prompt_eval_duration"] = nanoseconds(statistics.prefill);
        line["eval_count"] = statistics.generated_tokens.into();
        line["eval_duration"] = nanoseconds(statistics.decode);
    }

    fn add(&mut self, delta: AnswerDelta) -> Option<Value> {
        match delta {
            AnswerDelta::Text { text, .. } => Some(self.line(&text, None, Vec::new())),
            AnswerDelta::Reasoning(text) => Some(self.line("", Some(&text), Vec::new())),
            AnswerDelta::CallBegin { id, name, .. } => {
                self.call = Some((id, name, String::new()));
                None
            }
            AnswerDelta::CallArguments { text, .. } => {
                if let Some((_, _, arguments)) = &mut self.call {
                    arguments.push_str(&text);
                }
                None
            }
            // Arguments are an object, so that a call is written when it is complete.
            AnswerDelta::CallEnd { index } => {
                let (id, name, arguments) = self.call.take()?;
                Some(self.line("", None, vec![call(index, &id, &name, &arguments)]))
            }
            AnswerDelta::EndToken(_) | AnswerDelta::Prompt { .. } => None,
        }
    }
}

impl AnswerWriter for LineWriter {
    fn content_type(&self) -> &'static str {
        "application/x-ndjson"
    }

    fn begin(&mut self, _text: &mut String) {}

    fn change(&mut self, change: AnswerChange, answering: &Answering, text: &mut String) {
        let line = match change {
            AnswerChange::Delta(_, delta) => self.add(delta),
            AnswerChange::Finish(choice) => answering.outcome(choice).map(|outcome| {
                let mut line = self.line("", None, Vec::new());
                self.finish(&mut line, outcome);
                line
            }),
        };
        if let Some(line) = line {
            text.push_str(&format!("{line}\n"));
        }
    }

    fn end(&mut self, _answering: &Answering, _text: &mut String) {}

    fn fault(&mut self, fault: &ApiFault, text: &mut String) {
        text.push_str(&format!("{}\n", ollama_error(fault)));
    }

    fn waiting(&self) -> &'static str {
        match self.kind {
            OllamaRoute::Chat => "{\"message\":{\"role\":\"assistant\",\"content\":\"\"},\"done\":false}\n",
            OllamaRoute::Generate => "{\"response\":\"\",\"done\":false}\n",
        }
    }

    fn whole(&self, whole: &WholeAnswer, answering: &Answering) -> Value {
        let Some(choice) = whole.choices.first() else { return self.loaded() };
        let calls = choice.complete_calls().enumerate();
        let calls = calls.map(|(index, one)| call(index, &one.id, &one.name, &one.arguments)).collect();
        let reasoning = Some(choice.reasoning.as_str()).filter(|reasoning| !reasoning.is_empty());
        let mut line = self.line(&choice.text, reasoning, calls);
        if let Some(outcome) = answering.outcome(0) {
            self.finish(&mut line, outcome);
        }
        line
    }
}

fn call(index: usize, id: &str, name: &str, arguments: &str) -> Value {
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    json!({ "id": id, "function": { "index": index, "name": name, "arguments": arguments } })
}

/// The body of an error.
pub(crate) fn ollama_error(fault: &ApiFault) -> Value {
    json!({ "error": fault.message })
}

/// Nanoseconds, as the interface counts time.
pub(crate) fn nanoseconds(time: Duration) -> Value {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).into()
}
