//! [`LogitBias`]: adds a number to the logits of given tokens.

use super::candidates::is_broken;
use super::{CandidateToken, Candidates, LogitsStep, SamplingError};
use std::collections::HashMap;

/// Adds `bias` to the logit of each named token; `-inf` forbids a token. Several biases of one token add up.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogitBias {
    biases: HashMap<u32, f32>,
}

impl LogitBias {
    /// A step with these `(token, bias)` pairs.
    pub(crate) fn new(pairs: impl IntoIterator<Item = (u32, f32)>) -> Self {
        let mut biases = HashMap::new();
        for (id, bias) in pairs {
            let sum = biases.entry(id).or_insert(0.0f32);
            // Never infinity, so that `-inf` always wins.
            *sum = (*sum + bias).min(f32::MAX);
        }
        Self { biases }
    }
}

impl LogitsStep for LogitBias {
    fn name(&self) -> &'static str {
        "logit-bias"
    }

    fn apply(&mut self, candidates: &mut Candidates, _history: &[u32]) -> Result<(), SamplingError> {
        let mut broken: Option<(CandidateToken, f32)> = None;
        candidates.change(&self.biases, |entry, bias| {
            entry.logit += bias;
            if is_broken(entry.logit) && broken.is_none_or(|(first, _)| entry.id < first.id) {
                broken = Some((*entry, *bias));
            }
        });
        match broken {
            None => Ok(()),
            Some((CandidateToken { id, logit }, bias)) => {
                let value = format!("{bias:e}");
                Err(SamplingError::Overflow { option: "--logit-bias", value, id, logit })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biases_are_added_and_minus_infinity_forbids() {
        let mut candidates = Candidates::from_logits(&[1.0, 2.0, 3.0]);
        LogitBias::new([(0, 5.0), (0, 1.5), (2, f32::NEG_INFINITY), (9, 1.0)])
            .apply(&mut candidates, &[])
            .unwrap();
        let logits: Vec<f32> = candidates.entries().iter().map(|c| c.logit).collect();
        assert_eq!(logits, [7.5, 2.0, f32::NEG_INFINITY]);
        let mut candidates = Candidates::from_logits(&[1.0]);
        LogitBias::new([(0, f32::MAX), (0, f32::MAX), (0, f32::NEG_INFINITY)])
            .apply(&mut candidates, &[])
            .unwrap();
        assert_eq!(candidates.entries()[0].logit, f32::NEG_INFINITY);
    }

    #[test]
    fn a_logit_past_the_range_of_f32_is_an_error() {
        let mut candidates = Candidates::from_logits(&[0.0, 1e38, 1e38]);
        let biases = [(1, f32::MAX), (2, f32::MAX)];
        let error = LogitBias::new(biases).apply(&mut candidates, &[]).unwrap_err();
        assert!(matches!(error, SamplingError::Overflow { option: "--logit-bias", id: 1, .. }), "{error}");
    }
}
