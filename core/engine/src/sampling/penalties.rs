//! [`Penalties`]: repetition, frequency and presence penalties on the last tokens.

use super::candidates::is_broken;
use super::{CandidateToken, Candidates, LogitsStep, SamplingError};
use std::collections::HashMap;

/// Lowers the logits of tokens that occur among the last tokens of the sequence, including the prompt.
///
/// With `count` the number of occurrences: `logit /= repeat` if positive, else `logit *= repeat` (Keskar et al., 2019,
/// with llama.cpp's case for negative logits), then `logit -= count * frequency + presence` (OpenAI's definition).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Penalties {
    /// The number of last tokens; `None` = all.
    pub(crate) last: Option<usize>,
    /// Divides positive logits and multiplies negative ones; 1 = off.
    pub(crate) repeat: f32,
    /// Subtracted once per occurrence; 0 = off.
    pub(crate) frequency: f32,
    /// Subtracted once; 0 = off.
    pub(crate) presence: f32,
}

/// The last `last` tokens of a history, or all.
pub(super) fn tail(history: &[u32], last: Option<usize>) -> &[u32] {
    match last {
        Some(last) => &history[history.len().saturating_sub(last)..],
        None => history,
    }
}

impl LogitsStep for Penalties {
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
        let mut broken: Option<(CandidateToken, f32)> = None;
        candidates.change(&counts, |entry, &count| {
            if entry.logit <= 0.0 {
                entry.logit *= self.repeat;
            } else {
                entry.logit /= self.repeat;
            }
            entry.logit -= count * self.frequency + self.presence;
            if is_broken(entry.logit) && broken.is_none_or(|(first, _)| entry.id < first.id) {
                broken = Some((*entry, count));
            }
        });
        broken.map_or(Ok(()), |(CandidateToken { id, logit }, count)| {
            let (option, value) = self.strongest(count);
            Err(SamplingError::Overflow { option, value: format!("{value:e}"), id, logit })
        })
    }
}

impl Penalties {
    /// The option that changes the logit of a token with `count` occurrences the most, and its value.
    fn strongest(&self, count: f32) -> (&'static str, f32) {
        let Self { last: _, repeat, frequency, presence } = *self;
        // A factor changes a logit by orders of magnitude, the others by what is subtracted.
        let moves = [
            ("--repeat-penalty", repeat, libm::fabsf(libm::log2f(repeat))),
            ("--frequency-penalty", frequency, libm::log2f(libm::fabsf(count * frequency))),
            ("--presence-penalty", presence, libm::log2f(libm::fabsf(presence))),
        ];
        let [first, rest @ ..] = moves;
        let (option, value, _) =
            rest.into_iter().fold(first, |most, one| if one.2 > most.2 { one } else { most });
        (option, value)
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
    fn a_logit_past_the_range_of_f32_is_an_error_that_names_the_option() {
        let error = |penalties: Penalties, history: &[u32]| {
            let mut candidates = Candidates::from_logits(&[4.0, -4.0, 2.0, 1.0]);
            { penalties }.apply(&mut candidates, history).unwrap_err().to_string()
        };
        let cases = [
            (Penalties { repeat: 1e-38, ..OFF }, "--repeat-penalty (1e-38)", 0),
            (Penalties { frequency: -3e38, ..OFF }, "--frequency-penalty (-3e38)", 2),
            (Penalties { presence: -3e38, frequency: -1e38, ..OFF }, "--presence-penalty (-3e38)", 0),
        ];
        for (penalties, option, id) in cases {
            let said = error(penalties, &[3, 2, 0, 2]);
            assert!(said.contains(option) && said.contains(&format!("token {id} inf")), "{said}");
        }
        // A penalty that would allow a forbidden token again gives NaN.
        let mut forbidden = Candidates::from_logits(&[f32::NEG_INFINITY, 0.0]);
        let mut penalties = Penalties { frequency: -3e38, ..OFF };
        assert!(penalties.apply(&mut forbidden, &[0, 0]).is_err());
        // Minus infinity is the limit of a strong penalty: the token is not sampled.
        assert_eq!(
            logits(Penalties { frequency: 3e38, ..OFF }, &[0, 0]),
            [f32::NEG_INFINITY, -4.0, 2.0, 1.0]
        );
    }

    #[test]
    fn only_the_last_tokens_count() {
        let last_one = Penalties { last: Some(1), presence: 1.0, ..OFF };
        assert_eq!(logits(last_one, &[0, 2]), [4.0, -4.0, 1.0, 1.0]);
        assert_eq!(logits(Penalties { last: Some(0), ..last_one }, &[0, 2]), [4.0, -4.0, 2.0, 1.0]);
        assert_eq!(logits(Penalties { last: Some(9), ..last_one }, &[0, 2]), [3.0, -4.0, 1.0, 1.0]);
    }
}
