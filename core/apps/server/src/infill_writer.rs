//! [`InfillWriter`]: answers in the format of llama-server's own routes.

use crate::answer_fold::AnswerDelta;
use crate::answer_times::outcome_timings;
use crate::answer_writer::{AnswerWriter, add_event};
use crate::answering::{AnswerChange, Answering};
use crate::fault::ApiFault;
use crate::whole_answer::WholeAnswer;
use menagerie::engine::{Outcome, StopReason};
use serde_json::{Value, json};

/// Writes the one answer of a request.
pub(crate) struct InfillWriter {
    model: String,
    /// The requested fields of the answer (`a/b` is the field `b` of the object `a`); empty = all.
    wanted: Vec<String>,
}

impl InfillWriter {
    pub(crate) fn new(model: String, wanted: Vec<String>) -> Self {
        Self { model, wanted }
    }

    /// The end of an answer with this text.
    fn last(&self, text: &str, outcome: Option<&Outcome>) -> Value {
        let mut last = json!({ "content": text, "stop": true, "model": self.model, "truncated": false });
        let Some(outcome) = outcome else { return last };
        let statistics = &outcome.statistics;
        let (kind, word) = match &outcome.reason {
            StopReason::StopString(string) => ("word", string.as_str()),
            StopReason::MaxTokens | StopReason::ContextFull | StopReason::Indentation => ("limit", ""),
            _ => ("eos", ""),
        };
        let timings = outcome_timings(outcome);
        let more = json!({
            "stop_type": kind, "stopping_word": word, "tokens_predicted": statistics.generated_tokens,
            "tokens_evaluated": statistics.prompt_tokens, "tokens_cached": statistics.cached_tokens, "timings": timings,
        });
        if let (Value::Object(last), Value::Object(more)) = (&mut last, more) {
            last.extend(more);
        }
        if self.wanted.is_empty() {
            return last;
        }
        let field = |name: &String| Some((name.clone(), last.pointer(&format!("/{name}"))?.clone()));
        Value::Object(self.wanted.iter().filter_map(field).collect())
    }
}

impl AnswerWriter for InfillWriter {
    fn begin(&mut self, _text: &mut String) {}

    fn change(&mut self, change: AnswerChange, answering: &Answering, text: &mut String) {
        match change {
            AnswerChange::Delta(_, AnswerDelta::Text { text: more, .. } | AnswerDelta::Reasoning(more)) => {
                add_event(text, None, &json!({ "content": more, "stop": false }));
            }
            AnswerChange::Delta(..) => {}
            AnswerChange::Finish(choice) => add_event(text, None, &self.last("", answering.outcome(choice))),
        }
    }

    fn end(&mut self, _answering: &Answering, _text: &mut String) {}

    fn fault(&mut self, fault: &ApiFault, text: &mut String) {
        add_event(text, Some("error"), &fault.json());
    }

    fn whole(&self, whole: &WholeAnswer, answering: &Answering) -> Value {
        let text = whole.choices.first().map_or("", |choice| &choice.all_text);
        self.last(text, answering.outcome(0))
    }
}
