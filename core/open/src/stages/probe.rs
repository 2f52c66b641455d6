//! [`probe`]: compares a split model with the whole model before it is used.

use crate::error::LoadError;
use menagerie_engine::{Engine, Evaluation, GenerateError, RequestKind, Scheduler, SchedulerOptions};
use menagerie_model::Executor;
use std::sync::Arc;

/// The number of tokens that are compared: a prompt of two chunks and a few single steps.
const TOKENS: usize = 9;

/// Tokens of a chunk, and the first token that is computed alone.
const CHUNK: usize = 3;
const DECODED: usize = 6;

/// Compares the logits of a split model with those of the whole model, bit by bit, on a few tokens.
///
/// # Errors
/// The first difference, or the error of one of the models.
pub(crate) fn probe(file: &str, split: &Engine, whole: Arc<dyn Executor>) -> Result<(), LoadError> {
    let failed = |reason: String| LoadError::Stages { file: file.to_owned(), reason };
    let count = TOKENS.min(split.context);
    let vocabulary = split.model.vocabulary().max(1);
    // Spread over the vocabulary, and the same at every load.
    let tokens: Vec<u32> = (0..count).map(|index| ((index * 7919 + 17) % vocabulary) as u32).collect();
    let chunk = if split.takes_whole_prompts() { count } else { CHUNK };
    let prompt = if split.model.is_bidirectional() { count } else { DECODED.min(count) };
    let compute = |engine: Engine| {
        logits(Arc::new(engine), &tokens, chunk, prompt).map_err(|error| failed(error.to_string()))
    };
    let reference = compute(Engine { model: whole, ..split.clone() })?;
    let own = compute(split.clone())?;
    let differs = reference.iter().zip(&own).position(|(a, b)| a.to_bits() != b.to_bits());
    match differs {
        None if reference.len() == own.len() => Ok(()),
        None => Err(failed("the stages give another number of logits than the whole model".to_owned())),
        Some(at) => {
            let [a, b] = [reference[at], own[at]];
            Err(failed(format!(
                "the stages compute another result than the whole model: logit {} after token {} is {b} instead of {a} (a defect: \
                 please report it; without --stages the model is right)",
                at % split.vocabulary().max(1),
                at / split.vocabulary().max(1)
            )))
        }
    }
}

/// Logits `[T, V]` of all tokens, the first `prompt` of them in steps of `chunk` and the others one by one.
fn logits(
    engine: Arc<Engine>,
    tokens: &[u32],
    chunk: usize,
    prompt: usize,
) -> Result<Vec<f32>, GenerateError> {
    let room = SchedulerOptions::default()
        .with_sequences(1)
        .with_prefixes(0)
        .with_capacity_tokens(tokens.len())
        .with_step_tokens(chunk.min(prompt));
    let mut evaluation =
        Evaluation::new(Scheduler::new(engine, Vec::new(), room)?, RequestKind::Logits, None)?;
    let mut values = Vec::new();
    evaluation.read(tokens, prompt, &mut |output| {
        values.extend_from_slice(output.logits()?);
        Ok(())
    })?;
    Ok(values)
}
