//! Random walks through the masks of a constraint.

use menagerie_engine::{Constraint, ConstraintError, Tokenizing};
use menagerie_random::SplitMix64;

/// The end of a walk.
#[derive(Debug, PartialEq)]
pub(crate) enum Walk {
    /// The answer is whole.
    Whole(String),
    /// The walk was too long; the text so far.
    Long(String),
}

/// From here on a walk opens no list, object or text if it need not.
const CLOSING: usize = 40;
/// The tokens whose bit is set.
pub(crate) fn ids(mask: &[u32], vocabulary: usize) -> Vec<u32> {
    (0..vocabulary as u32)
        .filter(|id| mask.get(*id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1))
        .collect()
}

/// How likely a token is taken: tokens that end something are likelier, and the more so the longer the text is.
fn weight(bytes: &[u8], taken: usize) -> u64 {
    let ends = bytes.first().is_some_and(|first| b"\"}],.".contains(first)) || bytes.ends_with(b"\"");
    let opens = bytes.iter().any(|byte| b"[{".contains(byte));
    match (ends, taken > CLOSING) {
        (true, true) => 100_000,
        (true, false) => 40,
        (false, true) if opens => 1,
        (false, true) => 20,
        (false, false) => 10,
    }
}

/// Takes random allowed tokens until the answer is whole, at most `most`.
pub(crate) fn walk(
    tokenizer: &dyn Tokenizing,
    constraint: &dyn Constraint,
    random: &mut SplitMix64,
    most: usize,
) -> Result<Walk, ConstraintError> {
    let (mut state, mut bytes) = (constraint.start()?, Vec::new());
    for taken in 0..most {
        if state.is_complete() {
            return Ok(Walk::Whole(text(bytes)));
        }
        let allowed = ids(state.allowed()?.unwrap(), tokenizer.vocabulary());
        let is_end = |id: &u32| tokenizer.end_of_generation().contains(id);
        assert!(!allowed.is_empty());
        if allowed.iter().any(is_end)
            && (random.below(3) == 0 || taken > CLOSING || allowed.iter().all(is_end))
        {
            return Ok(Walk::Whole(text(bytes)));
        }
        let open: Vec<u32> = allowed.into_iter().filter(|id| !is_end(id)).collect();
        let weights: Vec<u64> = open.iter().map(|id| weight(&tokenizer.bytes(*id), taken)).collect();
        let mut draw = random.bits() % weights.iter().sum::<u64>();
        let index = weights.iter().position(|weight| {
            let is_here = draw < *weight;
            draw = draw.saturating_sub(*weight);
            is_here
        });
        let id = open[index.unwrap()];
        bytes.extend(tokenizer.bytes(id));
        state.accept(id)?;
    }
    Ok(Walk::Long(String::from_utf8_lossy(&bytes).into_owned()))
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}
