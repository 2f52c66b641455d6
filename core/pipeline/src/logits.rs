//! [`logits()`]: logits of every token of a sequence, for tests and for comparing with other implementations.

use crate::engine::Engine;
use crate::error::GenerateError;
use crate::scheduler::{Scheduler, SchedulerOptions};
use crate::sequence::Wanted;
use menagerie_model::LayerHook;
use std::sync::Arc;

/// How the tokens are fed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogitsOptions {
    /// Tokens per step of the prompt; absent = all at once.
    pub chunk: Option<usize>,
    /// Index from which tokens are fed one at a time through the cache; absent = all are prompt.
    pub decode_from: Option<usize>,
}

/// Logits of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Logits {
    /// V: columns.
    pub vocabulary: usize,
    /// `[T, V]`, row after row; row `t` is after token `t`.
    pub values: Vec<f32>,
}

impl Logits {
    /// T: rows.
    pub fn rows(&self) -> usize {
        self.values.len() / self.vocabulary.max(1)
    }

    /// Row `t`, `[V]`; empty past the end.
    pub fn row(&self, t: usize) -> &[f32] {
        self.values.get(t * self.vocabulary..(t + 1) * self.vocabulary).unwrap_or_default()
    }
}

/// Logits `[T, V]` of `tokens`, computed in a sequence of its own.
///
/// # Errors
/// As [`logits_by_step`].
pub fn logits(
    engine: &Arc<Engine>,
    hooks: Vec<Arc<dyn LayerHook>>,
    tokens: &[u32],
    options: &LogitsOptions,
) -> Result<Logits, GenerateError> {
    let mut values = Vec::new();
    logits_by_step(engine, hooks, tokens, options, &mut |rows| {
        values.extend_from_slice(rows);
        Ok(())
    })?;
    Ok(Logits { vocabulary: engine.vocabulary(), values })
}

/// Logits of `tokens`, computed in a sequence of its own; `on_rows` is given those of each step, `[T', V]`, in order.
///
/// The first `decode_from` tokens are the prompt and decide the rope regime; where a later token crosses its limit the
/// sequence is computed again, and that token's row is the one of the new regime.
///
/// # Errors
/// `decode_from` or `chunk` of 0, tokens that do not fit or are past the vocabulary, or what the model or `on_rows`
/// returns.
pub fn logits_by_step(
    engine: &Arc<Engine>,
    hooks: Vec<Arc<dyn LayerHook>>,
    tokens: &[u32],
    options: &LogitsOptions,
    on_rows: &mut dyn FnMut(&[f32]) -> Result<(), GenerateError>,
) -> Result<(), GenerateError> {
    engine.check_prompt(tokens)?;
    if options.chunk == Some(0) {
        return Err(GenerateError::Options(
            "a chunk must have at least one token (--chunk 1 or more)".to_owned(),
        ));
    }
    let prompt = options.decode_from.unwrap_or(tokens.len()).min(tokens.len());
    if prompt == 0 {
        let message =
            "decoding can begin at token 1 at the earliest: the first token is the prompt (--decode-from 1)";
        return Err(GenerateError::Options(message.to_owned()));
    }
    let step_tokens = options.chunk.unwrap_or(prompt);
    let room = SchedulerOptions { sequences: 1, capacity_tokens: tokens.len(), step_tokens };
    let mut scheduler = Scheduler::new(Arc::clone(engine), hooks, room)?;
    let mut sequence = scheduler.create()?;
    scheduler.begin(&mut sequence, &tokens[..prompt], Wanted::All)?;
    scheduler.feed(&mut sequence, None, &mut |_, rows| on_rows(rows))?;
    for &token in &tokens[prompt..] {
        scheduler.push(&mut sequence, token)?;
        scheduler.feed(&mut sequence, None, &mut |_, rows| on_rows(rows))?;
    }
    Ok(())
}
