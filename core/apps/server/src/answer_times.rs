//! [`AnswerTimes`]: when an answer was computed, and of how many tokens.

use menagerie::engine::{Event, Outcome};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};

/// When an answer was computed, and of how many tokens, as far as it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AnswerTimes {
    /// The model.
    pub model: String,
    /// When it was sent to the thread of the model.
    pub sent: Instant,
    /// When the first step of its prompt began.
    pub began: Option<Instant>,
    /// When its first token was sampled.
    pub first: Option<Instant>,
    /// When its newest token was sampled, or when it ended.
    pub last: Option<Instant>,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that are computed.
    pub prompt_done: usize,
    /// Tokens of the prompt whose state existed before.
    pub cached_tokens: usize,
    /// Tokens of the answer.
    pub generated_tokens: usize,
    /// Why it ended, as [`menagerie::engine::StopReason::name`]; `None` while it has not, or if it failed.
    pub reason: Option<&'static str>,
}

impl AnswerTimes {
    /// Of an answer that is sent to the thread of its model now.
    pub(crate) fn now(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            sent: Instant::now(),
            began: None,
            first: None,
            last: None,
            prompt_tokens: 0,
            prompt_done: 0,
            cached_tokens: 0,
            generated_tokens: 0,
            reason: None,
        }
    }

    /// Takes an event that happened at this time.
    pub(crate) fn event(&mut self, event: &Event, at: Instant) {
        match event {
            Event::Prefill { done, total, cached } => {
                (self.prompt_done, self.prompt_tokens, self.cached_tokens) = (*done, *total, *cached);
            }
            Event::Token { .. } => {
                self.first.get_or_insert(at);
                self.last = Some(at);
                self.generated_tokens += 1;
            }
            _ => {}
        }
    }

    /// Takes the end of the answer.
    pub(crate) fn ended(&mut self, outcome: &Outcome, at: Instant) {
        let statistics = &outcome.statistics;
        self.prompt_tokens = statistics.prompt_tokens;
        (self.cached_tokens, self.generated_tokens) = (statistics.cached_tokens, statistics.generated_tokens);
        self.last = Some(at);
        self.reason = Some(outcome.reason.name());
    }

    /// `prompt_progress` of llama-server.
    pub(crate) fn progress(&self, at: Instant) -> Value {
        let time = self.began.map_or(Duration::ZERO, |began| at.saturating_duration_since(began));
        json!({
            "total": self.prompt_tokens, "cache": self.cached_tokens, "processed": self.prompt_done,
            "time_ms": time.as_secs_f64() * 1000.0,
        })
    }

    /// `timings` of llama-server, of the answer so far.
    pub(crate) fn timings(&self) -> Value {
        let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.saturating_duration_since(from),
            _ => Duration::ZERO,
        };
        let computed = self.prompt_tokens.saturating_sub(self.cached_tokens);
        timings(
            (computed, between(self.began, self.first)),
            (self.generated_tokens, between(self.first, self.last)),
            self.cached_tokens,
        )
    }
}

/// `timings` of llama-server, of a whole answer.
pub(crate) fn outcome_timings(outcome: &Outcome) -> Value {
    let statistics = &outcome.statistics;
    let computed = statistics.prompt_tokens.saturating_sub(statistics.cached_tokens);
    timings(
        (computed, statistics.prefill),
        (statistics.generated_tokens, statistics.decode),
        statistics.cached_tokens,
    )
}

/// `timings` of llama-server: computed tokens of the prompt and generated ones, each with their time; tokens that need
/// not be computed.
fn timings(prompt: (usize, Duration), predicted: (usize, Duration), cached: usize) -> Value {
    let mut timings = times("prompt", prompt);
    timings.extend(times("predicted", predicted));
    timings.insert("cache_n".to_owned(), cached.into());
    timings.into()
}

/// Count, milliseconds and rate of tokens.
fn times(name: &str, (count, time): (usize, Duration)) -> Map<String, Value> {
    let millis = time.as_secs_f64() * 1000.0;
    let rate = |part: f64, whole: f64| if whole > 0.0 { json!(part / whole) } else { Value::Null };
    Map::from_iter([
        (format!("{name}_n"), count.into()),
        (format!("{name}_ms"), json!(millis)),
        (format!("{name}_per_token_ms"), rate(millis, count as f64)),
        (format!("{name}_per_second"), rate(count as f64 * 1000.0, millis)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and their meaning are those of llama-server (`result_timings`, `result_prompt_progress`).
    #[test]
    fn progress_and_timings_have_the_fields_of_llama_server() {
        let (mut times, ms) = (AnswerTimes::now("m"), Duration::from_millis);
        let start = times.sent;
        times.began = Some(start + ms(5));
        times.event(&Event::Prefill { done: 60, total: 100, cached: 20 }, start + ms(25));
        let progress = json!({ "total": 100, "cache": 20, "processed": 60, "time_ms": 20.0 });
        assert_eq!(times.progress(start + ms(25)), progress);
        let token = Event::Token { id: 1, piece: String::new(), bytes: vec![], logprob: None, top: vec![] };
        times.event(&token, start + ms(45));
        times.event(&token, start + ms(55));
        let timings = json!({
            "cache_n": 20, "prompt_n": 80, "prompt_ms": 40.0, "prompt_per_token_ms": 0.5, "prompt_per_second": 2000.0,
            "predicted_n": 2, "predicted_ms": 10.0, "predicted_per_token_ms": 5.0, "predicted_per_second": 200.0,
        });
        assert_eq!(times.timings(), timings);
    }
}
