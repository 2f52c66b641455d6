//! [`Penalties`]: repetition, frequency and presence penalties over the last tokens.

use super::{Candidates, LogitsPart, SamplingError};
use std::collections::HashMap;

/// Lowers the logits of tokens that occur among the last tokens of the sequence, prompt included.
///
/// With `count` the number of occurrences: `logit /= repeat` if positive, else `logit *= repeat` (Keskar et al., 2019,
/// with llama.cpp's case for negative logits), then `logit -= count * frequency + presence` (OpenAI's definition).
#[derive(Clone, Copy, Debug)]
pub struct Penalties {
    /// Tokens that are looked at, from the end; `None` = all.
    pub last: Option<usize>,
    /// Divides positive logits and multiplies negative ones; 1 = off.
    pub repeat: f32,
    /// Subtracted once per occurrence; 0 = off.
    pub frequency: f32,
    /// Subtracted once; 0 = off.
    pub presence: f32,
}

/// The last `last` tokens of a history, or all.
pub(super) fn tail(history: &[u32], last: Option<usize>) -> &[u32] {
    match last {
        Some(last) => &history[history.len().saturating_sub(last)..],
        None => history,
    }
}

impl LogitsPart for Penalties {
    fn name(&self) -> &'static str {
        "penalties"
    }

    fn apply(&mut self, candidates: &mut Candidates, history: &[u32]) -> Result<(), SamplingError> {
        let recent = tail(history, self.last);
        if recent.is_empty() {
            return Ok(());
        }
        let mut counts: HashMap<u32, f32> = HashMap::new();
        for &id in recent {
            *counts.entry(id).or_insert(0.0) += 1.0;
        }
        candidates.change(&counts, |entry, count| {
            if entry.logit <= 0.0 {
                entry.logit *= self.repeat;
            } else {
                entry.logit /= self.repeat;
            }
            entry.logit -= count * self.frequency + self.presence;
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logits(penalties: Penalties, history: &[u32]) -> Vec<f32> {
        let mut candidates = Candidates::from_logits(&[4.0, -4.0, 2.0, 1.0]);
        { penalties }.apply(&mut candidates, history).unwrap();
        candidates.entries().iter().map(|entry| entry.logit).collect()
    }

    const OFF: Penalties = Penalties { last: None, repeat: 1.0, frequency: 0.0, presence: 0.0 };

    #[test]
    fn repetition_divides_positive_and_multiplies_negative_logits() {
        assert_eq!(logits(Penalties { repeat: 2.0, ..OFF }, &[0, 1, 1]), [2.0, -8.0, 2.0, 1.0]);
    }

    #[test]
    fn frequency_counts_and_presence_does_not() {
        assert_eq!(logits(Penalties { frequency: 0.5, ..OFF }, &[0, 1, 1]), [3.5, -5.0, 2.0, 1.0]);
        assert_eq!(logits(Penalties { presence: 0.5, ..OFF }, &[0, 1, 1]), [3.5, -4.5, 2.0, 1.0]);
    }

    #[test]
    fn all_three_apply_in_llama_cpps_order() {
        // 4 / 2 - (2 * 0.25 + 0.5) = 1
        let all = Penalties { last: None, repeat: 2.0, frequency: 0.25, presence: 0.5 };
        assert_eq!(logits(all, &[0, 0]), [1.0, -4.0, 2.0, 1.0]);
    }

    #[test]
    fn only_the_last_tokens_count() {
        let last_one = Penalties { last: Some(1), presence: 1.0, ..OFF };
        assert_eq!(logits(last_one, &[0, 2]), [4.0, -4.0, 1.0, 1.0]);
        assert_eq!(logits(Penalties { last: Some(0), ..last_one }, &[0, 2]), [4.0, -4.0, 2.0, 1.0]);
        assert_eq!(logits(Penalties { last: Some(9), ..last_one }, &[0, 2]), [3.0, -4.0, 1.0, 1.0]);
    }
}
