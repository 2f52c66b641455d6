//! [`Xtc`]: exclude top choices, to avoid the most predictable continuation.

use super::{Candidates, Generator, LogitsStep, SamplingError};

/// With a chance of `probability`, drops every candidate of at least `threshold` except the least likely of them
/// (llama.cpp pull request 9742).
#[derive(Clone, Debug)]
pub(crate) struct Xtc {
    /// The chance that it acts on a token; 0 = off.
    pub(crate) probability: f32,
    /// The probability from which a token counts as a top choice; above 0.5 nothing can be dropped.
    pub(crate) threshold: f32,
    /// The number of candidates that always stay.
    pub(crate) min_keep: usize,
    generator: Generator,
}

impl Xtc {
    /// A step that draws its chance from `generator`.
    pub(crate) fn new(probability: f32, threshold: f32, min_keep: usize, generator: Generator) -> Self {
        Self { probability, threshold, min_keep, generator }
    }
}

impl LogitsStep for Xtc {
    fn name(&self) -> &'static str {
        "xtc"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        if self.probability <= 0.0 || self.threshold > 0.5 || candidates.len() < 2 {
            return Ok(());
        }
        if self.generator.uniform() > f64::from(self.probability) {
            return Ok(());
        }
        candidates.sort();
        let tops = candidates.probabilities().iter().take_while(|&&p| p >= self.threshold).count();
        let dropped = tops.saturating_sub(1);
        if dropped > 0 && candidates.len() - dropped >= self.min_keep {
            candidates.drop_first(dropped);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(probability: f32, threshold: f32) -> Vec<u32> {
        // llama.cpp's own distribution (tests/test-sampling.cpp).
        let logits: Vec<f32> = [0.4f32, 0.3, 0.2, 0.1].iter().map(|p| p.ln()).collect();
        let mut candidates = Candidates::from_logits(&logits);
        Xtc::new(probability, threshold, 0, Generator::new(1)).apply(&mut candidates, &[]).unwrap();
        candidates.entries().iter().map(|candidate| candidate.id).collect()
    }

    #[test]
    fn all_top_choices_but_the_last_go() {
        assert_eq!(kept(1.0, 0.09), [3]);
        assert_eq!(kept(1.0, 0.19), [2, 3]);
        assert_eq!(kept(1.0, 0.29), [1, 2, 3]);
        assert_eq!(kept(1.0, 0.39), [0, 1, 2, 3]);
    }

    /// A probability equal to the threshold counts as a top choice: of two halves at 0.5 one is dropped.
    #[test]
    fn a_probability_equal_to_the_threshold_is_a_top_choice() {
        for (logits, threshold, left) in [(&[0.0, 0.0][..], 0.5, 1), (&[1.0; 4], 0.25, 1)] {
            let mut candidates = Candidates::from_logits(logits);
            Xtc::new(1.0, threshold, 0, Generator::new(1)).apply(&mut candidates, &[]).unwrap();
            assert_eq!(candidates.len(), left, "{threshold}");
        }
    }

    #[test]
    fn off_and_impossible_thresholds_change_nothing() {
        assert_eq!(kept(0.0, 0.09), [0, 1, 2, 3]);
        assert_eq!(kept(1.0, 0.51), [0, 1, 2, 3]);
    }

    #[test]
    fn it_acts_as_often_as_asked() {
        let mut part = Xtc::new(0.25, 0.1, 0, Generator::new(3));
        let acted = (0..4000)
            .filter(|_| {
                let mut candidates = Candidates::from_logits(&[0.0, 0.0]);
                part.apply(&mut candidates, &[]).unwrap();
                candidates.len() == 1
            })
            .count();
        assert!((880..1120).contains(&acted), "{acted} of 4000");
    }
}
