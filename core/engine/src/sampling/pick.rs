//! The ends of a chain: [`Greedy`] and [`Random`].

use super::{Candidates, Generator, Pick};

/// Picks the best candidate (lower id if equal).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Greedy;

impl Pick for Greedy {
    fn takes_best(&self) -> bool {
        true
    }

    fn pick(&mut self, candidates: &mut Candidates) -> Option<u32> {
        candidates.best().map(|best| best.id)
    }
}

/// Picks a candidate with its probability.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    generator: Generator,
}

impl Random {
    /// A pick that draws one number per token from `generator`.
    pub(crate) fn new(generator: Generator) -> Self {
        Self { generator }
    }
}

impl Pick for Random {
    fn pick(&mut self, candidates: &mut Candidates) -> Option<u32> {
        let draw = self.generator.uniform();
        let mut sum = 0.0;
        let drawn = candidates.probabilities().into_iter().position(|p| {
            sum += f64::from(p);
            p > 0.0 && draw < sum
        });
        // Rounding may leave the sum just below the draw: then take the best candidate, whose probability is positive.
        drawn
            .and_then(|index| candidates.entries().get(index).copied())
            .or_else(|| candidates.best())
            .map(|c| c.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_takes_the_lower_id_of_equals() {
        assert_eq!(Greedy.pick(&mut Candidates::from_logits(&[1.0, 3.0, 3.0])), Some(1));
        assert_eq!(Greedy.pick(&mut Candidates::default()), None);
    }

    #[test]
    fn random_follows_the_probabilities() {
        let logits: Vec<f32> = [0.5f32, 0.3, 0.2].iter().map(|p| p.ln()).collect();
        let mut pick = Random::new(Generator::new(11));
        let mut counts = [0usize; 3];
        for _ in 0..10_000 {
            let id = pick.pick(&mut Candidates::from_logits(&logits)).unwrap();
            counts[id as usize] += 1;
        }
        for (count, expected) in counts.iter().zip([5000, 3000, 2000]) {
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
    }

    #[test]
    fn forbidden_tokens_are_never_drawn() {
        let mut pick = Random::new(Generator::new(5));
        for _ in 0..1000 {
            let mut candidates = Candidates::from_logits(&[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY]);
            assert_eq!(pick.pick(&mut candidates), Some(1));
        }
    }
}
