//! Random walks through calls of tools: texts without quotes end only where the walk writes their end.

use crate::walk::ids;
use menagerie_answers::CallFormat;
use menagerie_engine::{Constraint, Tokenizing};
use menagerie_random::SplitMix64;

/// From here on a walk tries to come to an end.
const CLOSING: usize = 60;

/// Texts with which parts of a call end.
pub(crate) fn endings(format: &CallFormat) -> Vec<String> {
    let keys = format.keys();
    let after = |form: &Option<String>| Some(form.as_ref()?.split_once("${value}")?.1.to_owned());
    let forms = [after(&keys.arg), after(&keys.arg_json), keys.quote.clone()];
    let marks = ["\"", "'", "}", "]", "]]>", ")"].map(str::to_owned);
    forms.into_iter().flatten().chain(marks).collect()
}

/// Takes random allowed tokens until the answer is whole; `None` if it is not after `most` tokens.
pub(crate) fn walk(
    tokenizer: &dyn Tokenizing,
    constraint: &dyn Constraint,
    endings: &[String],
    random: &mut SplitMix64,
    most: usize,
) -> Option<String> {
    let (mut state, mut bytes) = (constraint.start().unwrap(), Vec::new());
    let mut hint: Vec<u8> = Vec::new();
    for taken in 0..most {
        if state.is_complete() {
            return Some(String::from_utf8(bytes).unwrap());
        }
        let allowed = ids(state.allowed().unwrap().unwrap(), tokenizer.vocabulary());
        let is_end = |id: &u32| tokenizer.end_of_generation().contains(id);
        assert!(!allowed.is_empty());
        if allowed.iter().any(is_end)
            && (random.below(3) == 0 || taken > CLOSING || allowed.iter().all(is_end))
        {
            return Some(String::from_utf8(bytes).unwrap());
        }
        let open: Vec<u32> = allowed.into_iter().filter(|id| !is_end(id)).collect();
        if hint.is_empty() && (taken > CLOSING || random.below(4) == 0) {
            hint = endings[random.below(endings.len())].clone().into_bytes();
        }
        let fits = |id: &&u32| {
            let bytes = tokenizer.bytes(**id);
            !bytes.is_empty() && hint.starts_with(&bytes)
        };
        let id = match open.iter().filter(fits).max_by_key(|id| tokenizer.bytes(**id).len()) {
            Some(id) => *id,
            None => {
                hint.clear();
                open[random.below(open.len())]
            }
        };
        let written = tokenizer.bytes(id);
        hint.drain(..written.len().min(hint.len()));
        bytes.extend(written);
        state.accept(id).unwrap();
    }
    None
}
