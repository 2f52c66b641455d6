//! What components that do not work on rows must stand.

use super::check::Check;
use super::given::Given;
use super::numbers::Numbers;
use crate::abi::Component;
use crate::error::{Error, Result};

pub(super) const ROPES: &[Check] = &[
    ("an instance is made and ends", made),
    ("frequencies are numbers, and the same each time", frequencies),
];

pub(super) const SAMPLERS: &[Check] = &[
    ("an instance is made and ends", made),
    ("a token is left, and the same each time", sampled),
    ("extreme logits are no panic", extreme),
];

pub(super) const TOKENIZERS: &[Check] = &[
    ("an instance is made and ends", made),
    ("texts become ids of the vocabulary", encoded),
    ("every id has bytes", decoded),
];

fn made(component: &Component, given: &Given) -> Result<()> {
    given.create(component).map(drop)
}

fn frequencies(component: &Component, given: &Given) -> Result<()> {
    let model = given.create(component)?;
    for (base, context) in [(10_000.0, 2048), (500_000.0, 131_072), (10_000.0, 1)] {
        let found = model.frequencies(base, context)?;
        let numbers = found.values.iter().chain([&found.magnitude]);
        if let Some(x) = numbers.clone().find(|x| !x.is_finite()) {
            return Err(Error::new(format!(
                "base {base}, context {context}: {x}: not written, or no number"
            )));
        }
        if model.frequencies(base, context)? != found {
            return Err(Error::new(format!(
                "base {base}, context {context}: other frequencies the second time"
            )));
        }
    }
    Ok(())
}

fn sampled(component: &Component, given: &Given) -> Result<()> {
    let mut numbers = Numbers::new(given.seed);
    for len in [1, 2, 7, 1000] {
        let logits = numbers.reals(len, 10.0);
        let tokens: Vec<u32> = (0..40).map(|_| numbers.below(len as u64) as u32).collect();
        let mut outputs = Vec::new();
        for _ in 0..2 {
            let (model, mut changed) = (given.create(component)?, logits.clone());
            model.sample(&mut changed, &tokens, 5, 77)?;
            outputs.push(changed);
        }
        if outputs[0].iter().zip(&outputs[1]).any(|(a, b)| a.to_bits() != b.to_bits()) {
            return Err(Error::new(format!("{len} logits: another result for the same random number")));
        }
        if outputs[0].iter().any(|x| x.is_nan()) || !outputs[0].iter().any(|x| x.is_finite()) {
            return Err(Error::new(format!("{len} logits: no token is left, or one is no number")));
        }
    }
    Ok(())
}

fn extreme(component: &Component, given: &Given) -> Result<()> {
    for x in [0.0, 3e38, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let (model, mut logits) = (given.create(component)?, vec![x; 9]);
        panicked(model.sample(&mut logits, &[], 0, 1), &format!("logits of {x}"))?;
    }
    let (model, mut none) = (given.create(component)?, Vec::new());
    panicked(model.sample(&mut none, &[], 0, 1), "no logits")
}

/// An error is an answer, a panic is not.
fn panicked(result: Result<()>, what: &str) -> Result<()> {
    match result {
        Err(error) if error.to_string().contains(" panicked: ") => {
            Err(Error::new(format!("{what}: {error}")))
        }
        _ => Ok(()),
    }
}

fn encoded(component: &Component, given: &Given) -> Result<()> {
    let model = given.create(component)?;
    let tokens = model.instance.made.tokens();
    for text in ["", "a", "Hello, world!", "  two  spaces\n\ttab", "Grüße, 你好 🙂", "\u{0}\u{7f}"] {
        // A vocabulary need not have every character.
        match model.encode(text) {
            Ok(ids) => {
                if let Some(id) = ids.iter().find(|id| tokens > 0 && **id as usize >= tokens) {
                    return Err(Error::new(format!("{text:?} has id {id}, of {tokens} tokens")));
                }
            }
            Err(error) => panicked(Err(error), &format!("{text:?}"))?,
        }
    }
    Ok(())
}

fn decoded(component: &Component, given: &Given) -> Result<()> {
    let model = given.create(component)?;
    for id in 0..model.instance.made.tokens() {
        model.decode(id as u32)?;
    }
    panicked(model.decode(u32::MAX).map(drop), "an id that there is not")
}
