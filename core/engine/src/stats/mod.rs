//! [`Statistics`] of a generation.

mod counts;

pub use counts::SchedulerCounts;

use std::fmt;
use std::time::Duration;

/// Counts and times of one generation.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Statistics {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the prompt whose state existed already.
    pub cached_tokens: usize,
    /// Those of the cached tokens whose state was read from the disk.
    pub disk_tokens: usize,
    /// Generated tokens, including the one that ended the generation.
    pub generated_tokens: usize,
    /// Time until the logits after the prompt.
    pub prefill: Duration,
    /// Time from there to the end.
    pub decode: Duration,
    /// Time from the call to the first token.
    pub time_to_first_token: Option<Duration>,
    /// How often the sequence was prefilled again because the rope regime changed.
    pub reprefills: usize,
    /// Time of waiting in a queue.
    pub queued: Duration,
    /// How often it was preempted by more urgent sequences.
    pub preemptions: usize,
    /// Time of the constraint: which tokens it allows, and taking tokens. `None` = no constraint.
    pub constraint: Option<Duration>,
    /// The preemptions in which its state was swapped out and in again instead of being computed again.
    pub set_aside: usize,
    /// Guesses of its next tokens that steps computed.
    pub drafted_tokens: usize,
    /// Those of them that became tokens of the answer.
    pub accepted_tokens: usize,
    /// The drafted tokens that came from a predicted answer.
    pub drafted_predictions: usize,
    /// Those of them that became tokens of the answer.
    pub accepted_predictions: usize,
}

impl Statistics {
    /// Computed prompt tokens per second.
    pub fn prefill_rate(&self) -> Option<f64> {
        rate(self.prompt_tokens - self.cached_tokens.min(self.prompt_tokens), self.prefill)
    }

    /// Generated tokens per second. The first one is not counted, because its logits came with the prompt.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.generated_tokens.saturating_sub(1), self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> Option<f64> {
    (tokens > 0 && !time.is_zero()).then(|| tokens as f64 / time.as_secs_f64())
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prompt {} tokens", self.prompt_tokens)?;
        if self.cached_tokens > 0 {
            write!(f, " ({} cached", self.cached_tokens)?;
            if self.disk_tokens > 0 {
                write!(f, ", {} from disk", self.disk_tokens)?;
            }
            write!(f, ")")?;
        }
        write!(f, " in {:.2} s", self.prefill.as_secs_f64())?;
        if let Some(rate) = self.prefill_rate() {
            write!(f, " ({rate:.1}/s)")?;
        }
        write!(f, " · generated {} in {:.2} s", self.generated_tokens, self.decode.as_secs_f64())?;
        if let Some(rate) = self.decode_rate() {
            write!(f, " ({rate:.1}/s)")?;
        }
        if let Some(first) = self.time_to_first_token {
            write!(f, " · first token after {:.2} s", first.as_secs_f64())?;
        }
        if let Some(time) = self.constraint {
            write!(f, " · constraint {:.3} s", time.as_secs_f64())?;
        }
        if self.drafted_tokens > 0 {
            write!(f, " · drafted {}, accepted {}", self.drafted_tokens, self.accepted_tokens)?;
        }
        if self.reprefills > 0 {
            write!(f, " · prefilled again {} times for the rope regime", self.reprefills)?;
        }
        let again = self.preemptions.saturating_sub(self.set_aside);
        if again > 0 {
            write!(f, " · computed again {again} times for lack of pages")?;
        }
        if self.set_aside > 0 {
            write!(f, " · set aside {} times for lack of pages", self.set_aside)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_leave_out_what_was_not_computed() {
        let statistics = Statistics {
            prompt_tokens: 30,
            cached_tokens: 10,
            generated_tokens: 11,
            prefill: Duration::from_millis(500),
            decode: Duration::from_secs(2),
            time_to_first_token: Some(Duration::from_millis(510)),
            ..Statistics::default()
        };
        assert_eq!(statistics.prefill_rate(), Some(40.0));
        assert_eq!(statistics.decode_rate(), Some(5.0));
        assert_eq!(
            statistics.to_string(),
            "prompt 30 tokens (10 cached) in 0.50 s (40.0/s) · generated 11 in 2.00 s (5.0/s) · first token after 0.51 s"
        );
        assert_eq!(Statistics::default().decode_rate(), None);
    }
}
