//! Checks of components that do not compute rows.

use super::check::Check;
use super::numbers::RandomNumbers;
use super::setup::Setup;
use crate::abi::Component;
use crate::error::{Error, Result};

pub(super) const ROPES: &[Check] = &[
    ("an instance is created and destroyed", made),
    ("frequencies are finite and reproducible", frequencies),
];

pub(super) const SAMPLERS: &[Check] = &[
    ("an instance is created and destroyed", made),
    ("at least one token remains, reproducibly", sampled),
    ("extreme logits cause no panic", extreme),
];

pub(super) const TOKENIZERS: &[Check] = &[
    ("an instance is created and destroyed", made),
    ("texts are encoded as ids of the vocabulary", encoded),
    ("every id can be decoded", decoded),
];

fn made(component: &Component, given: &Setup) -> Result<()> {
    given.create(component).map(drop)
}

fn frequencies(component: &Component, given: &Setup) -> Result<()> {
    let model = given.create(component)?;
    for (base, context) in [(10_000.0, 2048), (500_000.0, 131_072), (10_000.0, 1)] {
        let found = model.frequencies(base, context)?;
        let numbers = found.values.iter().chain([&found.magnitude]);
        if let Some(x) = numbers.clone().find(|x| !x.is_finite()) {
            return Err(Error::new(format!(
                "base {base}, context {context}: a frequency is {x}: it was not written, or is not finite"
            )));
        }
        if model.frequencies(base, context)? != found {
            return Err(Error::new(format!(
                "base {base}, context {context}: the second call returned other frequencies"
            )));
        }
    }
    Ok(())
}

fn sampled(component: &Component, given: &Setup) -> Result<()> {
    let mut numbers = RandomNumbers::new(given.seed);
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
            return Err(Error::new(format!("{len} logits: no token remains, or a logit is NaN")));
        }
    }
    Ok(())
}

fn extreme(component: &Component, given: &Setup) -> Result<()> {
    for x in [0.0, 3e38, -3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let (model, mut logits) = (given.create(component)?, vec![x; 9]);
        panicked(model.sample(&mut logits, &[], 0, 1), &format!("logits of {x}"))?;
    }
    let (model, mut none) = (given.create(component)?, Vec::new());
    panicked(model.sample(&mut none, &[], 0, 1), "no logits")
}

/// Errors are allowed, panics are not.
fn panicked(result: Result<()>, what: &str) -> Result<()> {
    match result {
        Err(error) if error.to_string().contains(" panicked: ") => {
            Err(Error::new(format!("{what}: {error}")))
        }
        _ => Ok(()),
    }
}

fn encoded(component: &Component, given: &Setup) -> Result<()> {
    let model = given.create(component)?;
    let tokens = model.instance.made.tokens();
    for text in ["", "a", "Hello, world!", "  two  spaces\n\ttab", "Grüße, 你好 🙂", "\u{0}\u{7f}"] {
        // A vocabulary need not have every character.
        match model.encode(text) {
            Ok(ids) => {
                if let Some(id) = ids.iter().find(|id| tokens > 0 && **id as usize >= tokens) {
                    return Err(Error::new(format!(
                        "{text:?}: id {id} is outside the vocabulary of {tokens} tokens"
                    )));
                }
            }
            Err(error) => panicked(Err(error), &format!("{text:?}"))?,
        }
    }
    Ok(())
}

fn decoded(component: &Component, given: &Setup) -> Result<()> {
    let model = given.create(component)?;
    for id in 0..model.instance.made.tokens() {
        model.decode(id as u32)?;
    }
    panicked(model.decode(u32::MAX).map(drop), "an id that does not exist")
}
