//! [`probe`]: a split model beside the whole one, before it is used.

use crate::engine::Engine;
use crate::init::LoadError;
use crate::logits::{LogitsOptions, logits};
use menagerie_model::Executor;
use std::sync::Arc;

/// Tokens that are compared: prompts of two chunks and a few single steps.
const TOKENS: usize = 9;

/// Tokens of a prompt's chunk, and from which one on they come one by one.
const CHUNK: usize = 3;
const DECODED: usize = 6;

/// Compares the logits of a split model with those of the whole one, bit by bit, on a few tokens.
///
/// # Errors
/// The first difference, or what goes wrong in one of them.
pub(crate) fn probe(file: &str, split: &Engine, whole: Arc<dyn Executor>) -> Result<(), LoadError> {
    let failed = |reason: String| LoadError::Stages { file: file.to_owned(), reason };
    let count = TOKENS.min(split.context);
    let vocabulary = split.model.vocabulary().max(1);
    // Spread over the vocabulary, the same at every load.
    let tokens: Vec<u32> = (0..count).map(|index| ((index * 7919 + 17) % vocabulary) as u32).collect();
    let in_one = split.takes_whole_prompts();
    let options = LogitsOptions {
        chunk: (!in_one).then_some(CHUNK),
        decode_from: (!split.model.looks_ahead()).then_some(DECODED.min(count)),
    };
    let compute = |engine: Engine| {
        logits(&Arc::new(engine), Vec::new(), &tokens, &options).map_err(|error| failed(error.to_string()))
    };
    let reference = compute(Engine { model: whole, ..split.clone() })?;
    let own = compute(split.clone())?;
    let differs = reference.values.iter().zip(&own.values).position(|(a, b)| a.to_bits() != b.to_bits());
    match differs {
        None if reference.values.len() == own.values.len() => Ok(()),
        None => Err(failed("the stages give another number of logits than the whole model".to_owned())),
        Some(at) => {
            let [a, b] = [reference.values[at], own.values[at]];
            Err(failed(format!(
                "the stages compute another result than the whole model: logit {} after token {} is {b} instead of {a} (a defect: \
                 please report it; without --stages the model is right)",
                at % own.vocabulary.max(1),
                at / own.vocabulary.max(1)
            )))
        }
    }
}
