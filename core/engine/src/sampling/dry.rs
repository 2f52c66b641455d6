//! [`Dry`]: "don't repeat yourself", a penalty on tokens that continue a repetition.

use super::penalties::tail;
use super::{Candidates, LogitsStep, SamplingError};
use std::collections::HashMap;
use std::sync::Arc;

/// Token sequences that end a repetition: a new line, a colon, a quotation mark.
///
/// A breaker string occurs at every token whose text contains it, and at every token whose text ends with its first
/// characters, if the tokens of the rest follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breakers {
    /// By first token: the tokens that must follow it.
    tails: HashMap<u32, Vec<Vec<u32>>>,
}

/// The most tokens after the first one, as in llama.cpp.
const MAX_TAIL: usize = 20;

impl Breakers {
    /// Breakers that are exactly one token each.
    #[cfg(test)]
    pub(crate) fn single(ids: impl IntoIterator<Item = u32>) -> Self {
        Self { tails: ids.into_iter().map(|id| (id, vec![Vec::new()])).collect() }
    }

    /// Finds `breakers` in a vocabulary: `pieces[i]` is the text of token `i`, `encode` tokenizes the rest of a
    /// breaker.
    pub(crate) fn find(breakers: &[String], pieces: &[String], encode: &dyn Fn(&str) -> Vec<u32>) -> Self {
        let mut found = Self::default();
        for breaker in breakers.iter().filter(|breaker| !breaker.is_empty()) {
            for (piece, id) in pieces.iter().zip(0u32..) {
                if piece.contains(breaker.as_str()) {
                    found.add(id, Vec::new());
                } else {
                    for rest in overlaps(piece, breaker) {
                        let mut tail = encode(rest);
                        tail.truncate(MAX_TAIL);
                        found.add(id, tail);
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, id: u32, tail: Vec<u32>) {
        let tails = self.tails.entry(id).or_default();
        if !tails.contains(&tail) {
            tails.push(tail);
        }
    }

    /// Whether the token alone is a breaker.
    fn is_single(&self, id: u32) -> bool {
        self.tails.get(&id).is_some_and(|tails| tails.iter().any(Vec::is_empty))
    }

    /// The number of tokens after the first one in the longest breaker at `reversed[at]` (later tokens have lower
    /// indices).
    fn longest_at(&self, reversed: &[u32], at: usize) -> Option<usize> {
        let tails = self.tails.get(&reversed[at])?;
        let fits = |tail: &&Vec<u32>| {
            tail.len() <= at && tail.iter().enumerate().all(|(offset, &id)| id == reversed[at - 1 - offset])
        };
        tails.iter().filter(fits).map(Vec::len).max()
    }
}

/// The rest of `breaker` after each of its prefixes with which `piece` ends.
fn overlaps<'b>(piece: &str, breaker: &'b str) -> Vec<&'b str> {
    let splits = breaker.char_indices().skip(1).map(|(index, _)| index);
    splits.filter(|&index| piece.ends_with(&breaker[..index])).map(|index| &breaker[index..]).collect()
}

/// Lowers the logit of a token that would continue an earlier sequence (p-e-w, text-generation-webui pull request
/// 5677; llama.cpp pull request 9702) by `multiplier * base^(length - allowed_length)`, where the last `length` tokens
/// of the text occur earlier, followed by that token.
#[derive(Clone, Debug)]
pub(crate) struct Dry {
    /// Strength; 0 = off.
    pub(crate) multiplier: f32,
    /// Growth per token of repetition; below 1 = off.
    pub(crate) base: f32,
    /// Repetitions shorter than this are free.
    pub(crate) allowed_length: usize,
    /// The last tokens to search; `None` = all.
    pub(crate) last: Option<usize>,
    /// Sequences that end a repetition.
    pub(crate) breakers: Arc<Breakers>,
}

impl Dry {
    /// The longest repetition that each token would continue.
    fn repetitions(&self, history: &[u32]) -> HashMap<u32, usize> {
        let reversed: Vec<u32> = tail(history, self.last).iter().rev().copied().collect();
        let limit = (0..reversed.len())
            .find_map(|at| self.breakers.longest_at(&reversed, at).map(|rest| at - rest))
            .unwrap_or(reversed.len());
        let mut longest: HashMap<u32, usize> = HashMap::new();
        if reversed.len() <= self.allowed_length || limit < self.allowed_length {
            return longest;
        }
        for (shift, length) in common_prefixes(&reversed).into_iter().enumerate().skip(1) {
            let length = length.min(limit);
            if length >= self.allowed_length {
                let best = longest.entry(reversed[shift - 1]).or_default();
                *best = length.max(*best);
            }
        }
        longest
    }

    /// The penalty of a repetition of `length` tokens; the exponent is bounded so that it stays finite.
    fn penalty(&self, length: usize) -> f32 {
        let base = f64::from(self.base);
        let bound = match base > 1.000_001 {
            true => (libm::log(f64::from(f32::MAX)) / libm::log(base)).floor(),
            false => f64::MAX,
        };
        let exponent = ((length - self.allowed_length) as f64).min(bound);
        (f64::from(self.multiplier) * libm::pow(base, exponent)).min(f64::from(f32::MAX)) as f32
    }
}

/// `z[k]`: the length of the common prefix of `values` and `values[k..]` (Z-algorithm, Gusfield 1997).
fn common_prefixes(values: &[u32]) -> Vec<usize> {
    let mut z = vec![0; values.len()];
    let (mut left, mut right) = (0, 0);
    for k in 1..values.len() {
        let mut length = if k < right { z[k - left].min(right - k) } else { 0 };
        while k + length < values.len() && values[length] == values[k + length] {
            length += 1;
        }
        if k + length > right {
            (left, right) = (k, k + length);
        }
        z[k] = length;
    }
    z
}

impl LogitsStep for Dry {
    fn name(&self) -> &'static str {
        "dry"
    }

    fn apply(&mut self, candidates: &mut Candidates, history: &[u32]) -> Result<(), SamplingError> {
        if self.multiplier == 0.0 || self.base < 1.0 {
            return Ok(());
        }
        candidates.change(&self.repetitions(history), |entry, &length| {
            if !self.breakers.is_single(entry.id) {
                entry.logit -= self.penalty(length);
            }
        });
        Ok(())
    }
}

#[cfg(test)]
#[path = "dry_tests.rs"]
mod tests;
