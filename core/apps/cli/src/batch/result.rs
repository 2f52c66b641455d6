//! [`BatchResult`]: collects the answers of a line and formats them as OpenAI does.

use menagerie::engine::{GenerateError, Outcome};
use menagerie_openai::{
    AnswerFormat, AnswerToken, LinePlace, answer_usage, chat_logprobs, chat_message, completion_logprobs,
    fault_line, fault_of, finish_reason, result_line,
};
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The answers of a line.
pub(crate) struct BatchResult {
    place: LinePlace,
    shape: AnswerFormat,
    /// The text of the prompt, if answers begin with it.
    echo: Option<String>,
    /// Tokens of the prompt with their log probabilities, if requested.
    prompt: Vec<AnswerToken>,
    /// By answer: tokens with their log probabilities, if requested.
    shown: Vec<Vec<AnswerToken>>,
    ended: Vec<Option<Result<Outcome, GenerateError>>>,
}

impl BatchResult {
    /// A line with this number of answers, none of them complete.
    pub(crate) fn new(place: LinePlace, shape: AnswerFormat, answers: usize) -> Self {
        let ended = (0..answers).map(|_| None).collect();
        let shown = vec![Vec::new(); answers];
        Self { place, shape, echo: None, prompt: Vec::new(), shown, ended }
    }

    /// The same with answers that begin with this text of the prompt.
    pub(crate) fn with_echo(self, echo: Option<String>) -> Self {
        Self { echo, ..self }
    }

    /// Adds a token of the prompt.
    pub(crate) fn show_prompt(&mut self, shown: AnswerToken) {
        self.prompt.push(shown);
    }

    /// Adds a token of an answer.
    pub(crate) fn show(&mut self, answer: usize, shown: AnswerToken) {
        self.shown[answer].push(shown);
    }

    /// Adds the token that ended an answer. The tokens of a message are those of its content.
    pub(crate) fn show_end(&mut self, answer: usize, shown: AnswerToken) {
        if self.shape == AnswerFormat::Completion {
            self.shown[answer].push(shown);
        }
    }

    /// Ends an answer; returns whether it was the last one of the line.
    pub(crate) fn end(&mut self, answer: usize, result: Result<Outcome, GenerateError>) -> bool {
        self.ended[answer] = Some(result);
        self.ended.iter().all(Option::is_some)
    }

    /// The result line, and whether it is an answer. If one answer failed, the line is an error.
    pub(crate) fn line(mut self, model: &str) -> (Value, bool) {
        let ended = std::mem::take(&mut self.ended).into_iter();
        let outcomes: Result<Vec<Outcome>, GenerateError> = ended.flatten().collect();
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => return (fault_line(&self.place, &fault_of(error)), false),
        };
        let mut body = match self.shape {
            AnswerFormat::Chat => {
                json!({ "id": format!("chatcmpl-{}", self.place.number), "object": "chat.completion" })
            }
            AnswerFormat::Completion => {
                json!({ "id": format!("cmpl-{}", self.place.number), "object": "text_completion" })
            }
        };
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        body["created"] = seconds.into();
        body["model"] = model.into();
        body["choices"] =
            outcomes.iter().enumerate().map(|(index, outcome)| self.choice(index, outcome)).collect();
        body["usage"] = answer_usage(&outcomes);
        (result_line(&self.place, 200, body), true)
    }

    fn choice(&self, index: usize, outcome: &Outcome) -> Value {
        let shown = &self.shown[index];
        let is_shown = !shown.is_empty() || !self.prompt.is_empty();
        let echo = self.echo.as_deref();
        let logprobs = is_shown.then(|| match self.shape {
            AnswerFormat::Chat => chat_logprobs(shown),
            AnswerFormat::Completion => completion_logprobs(echo, &self.prompt, shown),
        });
        let mut choice =
            json!({ "index": index, "logprobs": logprobs, "finish_reason": finish_reason(outcome) });
        match self.shape {
            AnswerFormat::Chat => choice["message"] = chat_message(outcome),
            AnswerFormat::Completion => {
                let Outcome { text, reasoning, .. } = outcome;
                choice["text"] = format!("{}{reasoning}{text}", echo.unwrap_or_default()).into();
            }
        }
        choice
    }
}
