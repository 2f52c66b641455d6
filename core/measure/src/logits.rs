//! [`logits()`]: the logits of every token of a sequence, for tests and comparisons with other implementations.

use menagerie_engine::{
    Evaluation, GenerateError, RequestKind, Scheduler, SchedulerOptions, TextPipeline, setters,
};
use menagerie_open::{available_memory, byte_text};
use std::sync::Arc;

/// How the tokens are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogitsOptions {
    /// Tokens of a step of the prompt. `None`: all at once.
    pub chunk: Option<usize>,
    /// The first token that is computed alone, with the cache. `None`: all tokens are the prompt.
    pub decode_from: Option<usize>,
}

setters! { LogitsOptions:
    with_chunk(chunk: impl Into<Option<usize>>),
    with_decode_from(decode_from: impl Into<Option<usize>>),
}

/// The logits of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Logits {
    /// The number of columns: the size V of the vocabulary.
    pub vocabulary: usize,
    /// `[T, V]`, row after row; row `t` follows token `t`.
    pub values: Vec<f32>,
}

impl Logits {
    /// The number of rows: T tokens.
    pub fn rows(&self) -> usize {
        self.values.len() / self.vocabulary.max(1)
    }

    /// Row `t`, `[V]`; empty after the last row.
    pub fn row(&self, t: usize) -> &[f32] {
        self.values.get(t * self.vocabulary..(t + 1) * self.vocabulary).unwrap_or_default()
    }
}

/// The logits `[T, V]` of `tokens`, computed in a new sequence, all at once.
///
/// # Errors
/// As [`logits_by_step`]; also too little memory for all rows.
pub fn logits(
    pipeline: &TextPipeline,
    tokens: &[u32],
    options: &LogitsOptions,
) -> Result<Logits, GenerateError> {
    expect_room(tokens.len(), pipeline.vocabulary(), "fewer tokens at once", available_memory())?;
    let mut values = Vec::new();
    logits_by_step(pipeline, tokens, options, &mut |rows| {
        values.extend_from_slice(rows);
        Ok(())
    })?;
    Ok(Logits { vocabulary: pipeline.vocabulary(), values })
}

/// Computes the logits of `tokens` in a new sequence and calls `on_rows` with those of each step, `[T', V]`, in order.
///
/// The first `decode_from` tokens are the prompt and determine the rope regime. If a later token crosses the limit of
/// the regime, the sequence is computed again, and the row of that token is that of the new regime.
///
/// # Errors
/// `decode_from` or `chunk` of 0, tokens that do not fit or are not in the vocabulary, too little memory for the rows
/// of a step, or an error of the model or of `on_rows`.
pub fn logits_by_step(
    pipeline: &TextPipeline,
    tokens: &[u32],
    options: &LogitsOptions,
    on_rows: &mut dyn FnMut(&[f32]) -> Result<(), GenerateError>,
) -> Result<(), GenerateError> {
    let engine = pipeline.engine();
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
    let step_tokens = options.chunk.unwrap_or(prompt).min(prompt);
    expect_room(step_tokens, engine.vocabulary(), "smaller steps (--chunk)", available_memory())?;
    let room = SchedulerOptions::default()
        .with_sequences(1)
        .with_prefixes(0)
        .with_capacity_tokens(tokens.len())
        .with_step_tokens(step_tokens);
    let scheduler = Scheduler::new(Arc::clone(engine), pipeline.hooks().clone(), room)?;
    let mut evaluation = Evaluation::new(scheduler, RequestKind::Logits, None)?;
    evaluation.read(tokens, prompt, &mut |output| on_rows(output.logits()?))
}

/// Refuses a number of rows for which there is too little memory, if free memory is known.
fn expect_room(rows: usize, width: usize, instead: &str, free: Option<u64>) -> Result<(), GenerateError> {
    let bytes = (rows as u64).saturating_mul(width as u64).saturating_mul(size_of::<f32>() as u64);
    match free {
        Some(free) if bytes > free => Err(GenerateError::Options(format!(
            "the logits of {rows} tokens, {width} each, need {} but {} are free: use {instead}",
            byte_text(bytes),
            byte_text(free)
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_room_are_refused_with_numbers() {
        assert!(expect_room(512, 1 << 18, "", Some(512 << 20)).is_ok());
        assert!(expect_room(usize::MAX, usize::MAX, "", None).is_ok());
        let error =
            expect_room(512, 1 << 18, "smaller steps (--chunk)", Some(511 << 20)).unwrap_err().to_string();
        assert!(error.contains("536.9 MB but 535.8 MB are free: use smaller steps (--chunk)"), "{error}");
    }
}
