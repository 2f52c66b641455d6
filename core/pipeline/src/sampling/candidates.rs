//! [`Candidates`]: the tokens that may still be taken, with their logits.

use std::cmp::Ordering;

/// A token and its logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Token id.
    pub id: u32,
    /// Unnormalised log probability.
    pub logit: f32,
}

/// Highest logit first; the lower id first where logits are equal, so that every order is determined.
fn best_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id))
}

/// The tokens that may still be taken; never NaN, reused from token to token.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    entries: Vec<Candidate>,
    sorted: bool,
}

impl Candidates {
    /// Candidates for the whole vocabulary: the logit of token `i` is `logits[i]`.
    pub fn from_logits(logits: &[f32]) -> Self {
        let mut candidates = Self::default();
        candidates.refill(logits);
        candidates
    }

    /// Starts again with a new row of logits, keeping the allocation.
    pub fn refill(&mut self, logits: &[f32]) {
        self.entries.clear();
        self.entries.extend(logits.iter().zip(0..).map(|(&logit, id)| Candidate { id, logit }));
        self.sorted = false;
    }

    /// The candidates, in no particular order unless [`Self::sort`] was called.
    pub fn entries(&self) -> &[Candidate] {
        &self.entries
    }

    /// The candidates for changing logits; the order counts as lost.
    pub fn entries_mut(&mut self) -> &mut [Candidate] {
        self.sorted = false;
        &mut self.entries
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Puts the highest logit first (ties: lower id first).
    pub fn sort(&mut self) {
        if !self.sorted {
            self.entries.sort_unstable_by(best_first);
            self.sorted = true;
        }
    }

    /// Keeps the `count` best, sorted; at least one.
    pub fn keep_best(&mut self, count: usize) {
        let count = count.max(1);
        if !self.sorted && count < self.entries.len() {
            self.entries.select_nth_unstable_by(count - 1, best_first);
            self.entries.truncate(count);
        }
        self.sort();
        self.entries.truncate(count);
    }

    /// Drops the first `count` in the present order; at least one stays.
    pub fn drop_first(&mut self, count: usize) {
        let count = count.min(self.entries.len().saturating_sub(1));
        self.entries.drain(..count);
    }

    /// Keeps those whose logit is at least `limit`, or the `min_keep` best if fewer are (at least one).
    pub fn keep_from(&mut self, limit: f32, min_keep: usize) {
        let passing = self.entries.iter().filter(|entry| entry.logit >= limit).count();
        if passing >= min_keep.max(1) {
            self.entries.retain(|entry| entry.logit >= limit);
        } else {
            self.keep_best(min_keep);
        }
    }

    /// Keeps the candidates at these indices of the present order, in the order given; nothing if `indices` is empty.
    pub fn keep_indices(&mut self, indices: &[usize]) {
        let kept: Vec<Candidate> =
            indices.iter().filter_map(|&index| self.entries.get(index).copied()).collect();
        if !kept.is_empty() {
            self.entries = kept;
            self.sorted = false;
        }
    }

    /// The highest logit and its token (lower id where equal).
    pub fn best(&self) -> Option<Candidate> {
        self.entries.iter().copied().min_by(best_first)
    }

    /// Softmax of the logits, in the present order; f32 as in llama.cpp, summed in f64.
    pub fn probabilities(&self) -> Vec<f32> {
        let Some(best) = self.best() else { return Vec::new() };
        let exponentials: Vec<f32> =
            self.entries.iter().map(|entry| (entry.logit - best.logit).exp()).collect();
        let sum: f64 = exponentials.iter().map(|&e| f64::from(e)).sum();
        exponentials.iter().map(|&e| (f64::from(e) / sum) as f32).collect()
    }
}
