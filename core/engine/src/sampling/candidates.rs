//! [`Candidates`]: the tokens that may still be sampled, with their logits.

use std::cmp::Ordering;
use std::collections::HashMap;

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CandidateToken {
    /// Token id.
    pub(crate) id: u32,
    /// Unnormalized log probability.
    pub(crate) logit: f32,
}

/// Highest logit first; lower id first for equal logits, so that every order is deterministic.
fn best_first(a: &CandidateToken, b: &CandidateToken) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// Minus infinity forbids a token; plus infinity and NaN come from a failed computation.
pub(super) fn is_broken(logit: f32) -> bool {
    logit.is_nan() || logit == f32::INFINITY
}

/// The most candidates that are kept by insertion; more are kept by selection.
const FEW: usize = 128;

/// The tokens that may still be sampled. Logits are never NaN; the allocation is reused from token to token.
#[derive(Clone, Debug, Default)]
pub(crate) struct Candidates {
    entries: Vec<CandidateToken>,
    sorted: bool,
    /// Whether `entries[i]` is token `i`: nothing was dropped or moved.
    whole: bool,
    /// The size of the vocabulary.
    vocabulary: usize,
}

impl Candidates {
    /// Candidates for the whole vocabulary: the logit of token `i` is `logits[i]`.
    pub(crate) fn from_logits(logits: &[f32]) -> Self {
        let mut candidates = Self::default();
        candidates.refill(logits);
        candidates
    }

    /// Starts again with a new row of logits, in the same allocation.
    pub(crate) fn refill(&mut self, logits: &[f32]) {
        self.entries.clear();
        self.entries.extend(logits.iter().zip(0..).map(|(&logit, id)| CandidateToken { id, logit }));
        self.sorted = false;
        self.whole = true;
        self.vocabulary = logits.len();
    }

    /// Writes the logits into a row of the whole vocabulary; dropped tokens get minus infinity.
    pub(crate) fn write_row(&self, row: &mut Vec<f32>) {
        row.clear();
        row.resize(self.vocabulary, f32::NEG_INFINITY);
        for entry in &self.entries {
            if let Some(logit) = row.get_mut(entry.id as usize) {
                *logit = entry.logit;
            }
        }
    }

    /// Takes changed logits from such a row, in the order of the ids. Minus infinity drops a token; dropped tokens
    /// stay dropped.
    pub(crate) fn take_row(&mut self, row: &[f32]) {
        if !self.whole {
            self.entries.sort_unstable_by_key(|entry| entry.id);
        }
        for entry in &mut self.entries {
            entry.logit = row.get(entry.id as usize).copied().unwrap_or(f32::NEG_INFINITY);
        }
        self.entries.retain(|entry| entry.logit != f32::NEG_INFINITY);
        self.whole = self.entries.len() == self.vocabulary;
        self.sorted = false;
    }

    /// The candidates, in no particular order unless [`Self::sort`] was called.
    pub(crate) fn entries(&self) -> &[CandidateToken] {
        &self.entries
    }

    /// The candidates, to change their logits; they count as unsorted afterwards.
    pub(crate) fn entries_mut(&mut self) -> &mut [CandidateToken] {
        self.sorted = false;
        &mut self.entries
    }

    /// Changes the candidates that are named in `tokens`; they count as unsorted afterwards.
    pub(crate) fn change<T>(
        &mut self,
        tokens: &HashMap<u32, T>,
        mut change: impl FnMut(&mut CandidateToken, &T),
    ) {
        self.sorted = false;
        if self.whole {
            for (&id, value) in tokens {
                if let Some(entry) = self.entries.get_mut(id as usize) {
                    change(entry, value);
                }
            }
            return;
        }
        for entry in &mut self.entries {
            if let Some(value) = tokens.get(&entry.id) {
                change(entry, value);
            }
        }
    }

    /// Keeps the tokens whose bit is set in `mask` (bit `id % 32` of word `id / 32`), and the tokens `also`. One pass over
    /// the mask if nothing was dropped or moved before.
    pub(crate) fn retain_mask(&mut self, mask: &[u32], also: &[u32]) {
        let is_set = |id: u32| mask.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1);
        let also: Vec<CandidateToken> = match also {
            [] => Vec::new(),
            _ => {
                self.entries.iter().filter(|one| also.contains(&one.id) && !is_set(one.id)).copied().collect()
            }
        };
        if self.whole {
            let mut kept = 0;
            for (&word, start) in mask.iter().zip((0..self.entries.len()).step_by(32)) {
                let mut rest = word;
                while rest != 0 {
                    let id = start + rest.trailing_zeros() as usize;
                    rest &= rest - 1;
                    if let Some(&entry) = self.entries.get(id) {
                        self.entries[kept] = entry;
                        kept += 1;
                    }
                }
            }
            self.entries.truncate(kept);
        } else {
            self.entries.retain(|entry| is_set(entry.id));
        }
        self.entries.extend(also);
        self.whole = false;
        self.sorted = false;
    }

    /// Drops these tokens.
    pub(crate) fn drop_tokens(&mut self, tokens: &[u32]) {
        if !tokens.is_empty() {
            self.entries.retain(|entry| !tokens.contains(&entry.id));
            self.whole = false;
        }
    }

    /// The number of candidates.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Sorts by logit, highest first (ties: lower id first).
    pub(crate) fn sort(&mut self) {
        if !self.sorted {
            self.entries.sort_unstable_by(best_first);
            self.sorted = true;
            self.whole = false;
        }
    }

    /// Keeps the `count` best, sorted; at least one.
    pub(crate) fn keep_best(&mut self, count: usize) {
        let count = count.max(1);
        self.whole = false;
        if !self.sorted && count <= FEW && count < self.entries.len() {
            self.keep_few(count);
        } else if !self.sorted && count < self.entries.len() {
            self.entries.select_nth_unstable_by(count - 1, best_first);
            self.entries.truncate(count);
        }
        self.sort();
        self.entries.truncate(count);
    }

    /// One pass with the best so far in order: almost every candidate is rejected by one comparison.
    fn keep_few(&mut self, count: usize) {
        let mut best: Vec<CandidateToken> = Vec::with_capacity(count + 1);
        let mut worst = f32::NEG_INFINITY;
        for &entry in &self.entries {
            if entry.logit < worst {
                continue;
            }
            let place = best.partition_point(|held| best_first(held, &entry).is_le());
            best.insert(place, entry);
            if best.len() > count {
                best.truncate(count);
                worst = best[count - 1].logit;
            }
        }
        self.entries.clear();
        self.entries.append(&mut best);
        self.sorted = true;
    }

    /// Drops the first `count` in the current order; at least one stays.
    pub(crate) fn drop_first(&mut self, count: usize) {
        let count = count.min(self.entries.len().saturating_sub(1));
        self.whole = false;
        self.entries.drain(..count);
    }

    /// Keeps those whose logit is at least `limit`, or the `min_keep` best if fewer are (at least one).
    pub(crate) fn keep_from(&mut self, limit: f32, min_keep: usize) {
        let passing = self.entries.iter().filter(|entry| entry.logit >= limit).count();
        self.whole = false;
        if passing >= min_keep.max(1) {
            self.entries.retain(|entry| entry.logit >= limit);
        } else {
            self.keep_best(min_keep);
        }
    }

    /// Keeps the candidates at these indices of the current order, in this order; changes nothing if `indices` is
    /// empty.
    pub(crate) fn keep_indices(&mut self, indices: &[usize]) {
        let kept: Vec<CandidateToken> =
            indices.iter().filter_map(|&index| self.entries.get(index).copied()).collect();
        if !kept.is_empty() {
            self.entries = kept;
            (self.sorted, self.whole) = (false, false);
        }
    }

    /// Keeps no other candidate than this one, whether it was left or not.
    pub(crate) fn keep_only(&mut self, token: CandidateToken) {
        self.entries.clear();
        self.entries.push(token);
        (self.sorted, self.whole) = (true, false);
    }

    /// The candidate with the highest logit (lower id if equal).
    pub(crate) fn best(&self) -> Option<CandidateToken> {
        self.entries.iter().copied().min_by(best_first)
    }

    /// Softmax of the logits, in the current order; f32 as in llama.cpp, summed in f64.
    pub(crate) fn probabilities(&self) -> Vec<f32> {
        let Some(best) = self.best() else { return Vec::new() };
        let exponentials: Vec<f32> =
            self.entries.iter().map(|entry| libm::expf(entry.logit - best.logit)).collect();
        let sum: f64 = exponentials.iter().map(|&e| f64::from(e)).sum();
        exponentials.iter().map(|&e| (f64::from(e) / sum) as f32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Generator;

    #[test]
    fn named_tokens_are_changed_wherever_they_are() {
        let tokens = HashMap::from([(1, 10.0), (3, 20.0), (9, 30.0)]);
        let changed = |mut candidates: Candidates| {
            candidates.change(&tokens, |entry, value| entry.logit += value);
            candidates.sort();
            candidates.entries().iter().map(|entry| (entry.id, entry.logit)).collect::<Vec<_>>()
        };
        let whole = Candidates::from_logits(&[0.0, 1.0, 2.0, 3.0]);
        let mut cut = whole.clone();
        cut.keep_best(3);
        assert_eq!(changed(whole), [(3, 23.0), (1, 11.0), (2, 2.0), (0, 0.0)]);
        assert_eq!(changed(cut), [(3, 23.0), (1, 11.0), (2, 2.0)]);
    }

    /// Against the definition, for masks that are longer and shorter than the vocabulary.
    #[test]
    fn a_mask_keeps_the_tokens_whose_bits_are_set() {
        let mut generator = Generator::new(9);
        for (vocabulary, words) in [(1, 1), (31, 1), (32, 2), (33, 1), (200, 7), (200, 5), (64, 0)] {
            let logits: Vec<f32> = (0..vocabulary).map(|_| generator.below(50) as f32).collect();
            let mask: Vec<u32> =
                (0..words).map(|_| generator.bits() as u32 & generator.bits() as u32).collect();
            let also = [3, 40, 199];
            let is_kept = |id: usize| {
                let bit = mask.get(id / 32).is_some_and(|word| word & (1 << (id % 32)) != 0);
                bit || also.contains(&(id as u32))
            };
            let expected: Vec<(u32, f32)> =
                (0..vocabulary).filter(|&id| is_kept(id)).map(|id| (id as u32, logits[id])).collect();
            let kept = |mut candidates: Candidates| {
                candidates.retain_mask(&mask, &also);
                let mut kept: Vec<_> = candidates.entries().iter().map(|one| (one.id, one.logit)).collect();
                kept.sort_by_key(|one| one.0);
                kept
            };
            let whole = Candidates::from_logits(&logits);
            let mut moved = whole.clone();
            moved.sort();
            assert_eq!(kept(whole), expected, "{vocabulary} {words}");
            assert_eq!(kept(moved), expected, "{vocabulary} {words}");
        }
        let mut candidates = Candidates::from_logits(&[1.0, 2.0, 3.0]);
        candidates.drop_tokens(&[2, 7]);
        assert_eq!(candidates.best().unwrap().id, 1);
        candidates.change(&HashMap::from([(1, ())]), |entry, ()| entry.logit = 0.0);
        assert_eq!(candidates.best().unwrap().id, 0);
    }

    #[test]
    fn keeping_few_and_keeping_many_agree_with_sorting() {
        let mut generator = Generator::new(4);
        // Few different values, so there are many ties.
        let logits: Vec<f32> = (0..2000).map(|_| generator.below(97) as f32 - 48.0).collect();
        let mut sorted = Candidates::from_logits(&logits);
        sorted.sort();
        for count in [1, 2, 40, FEW, FEW + 1, 1999, 2000, 3000] {
            let mut kept = Candidates::from_logits(&logits);
            kept.keep_best(count);
            assert_eq!(kept.entries(), &sorted.entries()[..count.min(2000)], "{count}");
        }
    }
}
