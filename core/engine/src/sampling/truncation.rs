//! Steps that drop unlikely candidates: [`TopK`], [`TopP`], [`MinP`], [`Typical`].

use super::{Candidates, LogitsStep, SamplingError};

/// Keeps the `k` best; 0 = off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopK(pub(crate) usize);

impl LogitsStep for TopK {
    fn name(&self) -> &'static str {
        "top-k"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.0 > 0 {
            candidates.keep_best(self.0);
        }
        Ok(())
    }
}

/// Nucleus sampling (Holtzman et al., 2019): keeps the fewest best candidates whose probabilities reach `p`; 1 = off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopP {
    /// The probability to reach.
    pub(crate) p: f32,
    /// The number of candidates that always stay.
    pub(crate) min_keep: usize,
}

impl LogitsStep for TopP {
    fn name(&self) -> &'static str {
        "top-p"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.p >= 1.0 {
            return Ok(());
        }
        candidates.sort();
        let mut sum = 0.0;
        let mut keep = candidates.len();
        for (index, probability) in candidates.probabilities().into_iter().enumerate() {
            sum += probability;
            if sum >= self.p && index + 1 >= self.min_keep {
                keep = index + 1;
                break;
            }
        }
        candidates.keep_best(keep);
        Ok(())
    }
}

/// Keeps candidates at least `p` times as likely as the best (llama.cpp pull request 3841); 0 = off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinP {
    /// The share of the best probability.
    pub(crate) p: f32,
    /// The number of candidates that always stay.
    pub(crate) min_keep: usize,
}

impl LogitsStep for MinP {
    fn name(&self) -> &'static str {
        "min-p"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.p <= 0.0 {
            return Ok(());
        }
        if let Some(best) = candidates.best() {
            candidates.keep_from(best.logit + libm::logf(self.p), self.min_keep);
        }
        Ok(())
    }
}

/// Locally typical sampling (Meister et al., 2022): keeps candidates whose surprise is closest to the entropy until
/// their probabilities exceed `p`; 1 = off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Typical {
    /// The probability to exceed.
    pub(crate) p: f32,
    /// The number of candidates that always stay.
    pub(crate) min_keep: usize,
}

impl LogitsStep for Typical {
    fn name(&self) -> &'static str {
        "typical"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.p >= 1.0 {
            return Ok(());
        }
        candidates.sort();
        let probabilities = candidates.probabilities();
        let surprise = |p: f32| -libm::logf(p);
        let entropy: f32 = probabilities.iter().filter(|&&p| p > 0.0).map(|&p| p * surprise(p)).sum();
        let mut order: Vec<usize> = (0..probabilities.len()).collect();
        let distance = |index: usize| (surprise(probabilities[index]) - entropy).abs();
        order.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)).then(a.cmp(&b)));
        let mut sum = 0.0;
        let mut keep = order.len();
        for (place, &index) in order.iter().enumerate() {
            sum += probabilities[index];
            if sum > self.p && place + 1 >= self.min_keep {
                keep = place + 1;
                break;
            }
        }
        candidates.keep_indices(&order[..keep]);
        Ok(())
    }
}

#[cfg(test)]
#[path = "truncation_tests.rs"]
mod tests;
