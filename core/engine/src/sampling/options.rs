//! [`SamplingOptions`]: the numbers of a chain, named as in llama.cpp.

use super::{ChainStage, Sampler};
use crate::constraint::ConstraintError;
use crate::setters::setters;

/// Sampling options; the defaults are llama.cpp's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SamplingOptions {
    /// Divides logits; 0 = always the best token.
    pub temperature: f32,
    /// The number of best candidates to keep; 0 = off.
    pub top_k: usize,
    /// The probability that the kept candidates reach; 1 = off.
    pub top_p: f32,
    /// The share of the best probability that a candidate needs; 0 = off.
    pub min_p: f32,
    /// Locally typical sampling; 1 = off.
    pub typical_p: f32,
    /// Divides positive logits of earlier tokens; 1 = off.
    pub repeat_penalty: f32,
    /// The number of last tokens for the three penalties; 0 = off, -1 = the whole context.
    pub repeat_last_n: i64,
    /// Subtracted from logits of earlier tokens; 0 = off.
    pub presence_penalty: f32,
    /// Subtracted once per occurrence; 0 = off.
    pub frequency_penalty: f32,
    /// Strength of DRY; 0 = off.
    pub dry_multiplier: f32,
    /// Growth of the DRY penalty per repeated token.
    pub dry_base: f32,
    /// Shorter repetitions have no penalty.
    pub dry_allowed_length: usize,
    /// The number of last tokens for DRY; 0 = off, -1 = the whole context.
    pub dry_last_n: i64,
    /// Strings that end a repetition for DRY.
    pub dry_breakers: Vec<String>,
    /// The chance that XTC acts on a token; 0 = off.
    pub xtc_probability: f32,
    /// The probability from which XTC counts a token as a top choice.
    pub xtc_threshold: f32,
    /// Added to logits, by token id; `-inf` forbids.
    pub logit_bias: Vec<(u32, f32)>,
    /// Registered samplers, in the order in which they act: after biases, penalties and DRY, before truncation.
    pub samplers: Vec<Sampler>,
    /// The stages of the chain in this order, and no others; biases and registered samplers come first, and the last
    /// stage is followed by a random draw. `None` = llama.cpp's default chain.
    pub order: Option<Vec<ChainStage>>,
    /// The seed of all random draws; `None` = from the clock (the outcome reports it).
    pub seed: Option<u64>,
    /// The number of candidates that top-p, min-p, typical and XTC always keep.
    pub min_keep: usize,
}

setters! { SamplingOptions:
    with_temperature(temperature: f32),
    with_top_k(top_k: usize),
    with_top_p(top_p: f32),
    with_min_p(min_p: f32),
    with_typical_p(typical_p: f32),
    with_repeat_penalty(repeat_penalty: f32),
    with_repeat_last_n(repeat_last_n: i64),
    with_presence_penalty(presence_penalty: f32),
    with_frequency_penalty(frequency_penalty: f32),
    with_dry_multiplier(dry_multiplier: f32),
    with_dry_base(dry_base: f32),
    with_dry_allowed_length(dry_allowed_length: usize),
    with_dry_last_n(dry_last_n: i64),
    with_dry_breakers(dry_breakers: Vec<String>),
    with_xtc_probability(xtc_probability: f32),
    with_xtc_threshold(xtc_threshold: f32),
    with_logit_bias(logit_bias: Vec<(u32, f32)>),
    with_samplers(samplers: Vec<Sampler>),
    with_order(order: impl Into<Option<Vec<ChainStage>>>),
    with_seed(seed: impl Into<Option<u64>>),
    with_min_keep(min_keep: usize),
}

impl Default for SamplingOptions {
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_last_n: -1,
            dry_breakers: ["\n", ":", "\"", "*"].map(str::to_owned).into(),
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            logit_bias: Vec::new(),
            samplers: Vec::new(),
            order: None,
            seed: None,
            min_keep: 0,
        }
    }
}

/// A sampling option is invalid, or sampling failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplingError {
    /// A number outside its range.
    #[error("sampling option {option} is {value}, but must be {range}")]
    Range {
        /// The option, as named on the command line.
        option: &'static str,
        /// Its value.
        value: String,
        /// The allowed range.
        range: &'static str,
    },
    /// A logit bias for a token past the vocabulary.
    #[error("logit bias for token {id}, but the vocabulary has {vocabulary} tokens, with ids from 0")]
    BiasToken {
        /// The id.
        id: u32,
        /// The size of the vocabulary.
        vocabulary: usize,
    },
    /// A logit of the model is not a number.
    #[error(
        "the logit of token {id} is {logit}: the weights or the computation are broken; check the file's checksum, and try --exact"
    )]
    NotANumber {
        /// The first such token.
        id: usize,
        /// NaN or infinity.
        logit: f32,
    },
    /// An option moved a logit past the range of f32.
    #[error(
        "sampling option {option} ({value}) makes the logit of token {id} {logit}, which is past the range of 32-bit numbers; \
         use a value closer to the one that disables it"
    )]
    Overflow {
        /// The option, as named on the command line.
        option: &'static str,
        /// Its value.
        value: String,
        /// The first such token.
        id: u32,
        /// NaN or infinity.
        logit: f32,
    },
    /// A step of the chain produced NaN or infinity.
    #[error(
        "the step `{step}` of the sampling chain makes the logit of token {id} {logit}, which is not a number"
    )]
    BrokenStep {
        /// Its name.
        step: &'static str,
        /// The first such token.
        id: u32,
        /// NaN or infinity.
        logit: f32,
    },
    /// A registered sampler refused its options, or failed.
    #[error("sampler `{name}`: {message}")]
    Sampler {
        /// `author/name:sampler`.
        name: String,
        /// The reason.
        message: String,
    },
    /// The constraint of the answer failed.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
    /// Every token is forbidden.
    #[error(
        "no token is allowed: every logit is -inf; check the logit biases, the penalties and the constraint"
    )]
    NothingLeft,
}

impl SamplingOptions {
    /// Greedy sampling: always the best token, nothing else.
    pub fn greedy() -> Self {
        Self { temperature: 0.0, ..Self::default() }
    }

    /// Whether a step is enabled that may drop the most likely token.
    pub(super) fn may_drop_the_best(&self) -> bool {
        self.typical_p < 1.0 || self.xtc_probability > 0.0
    }

    /// Checks every number.
    ///
    /// # Errors
    /// [`SamplingError::Range`] names the first option outside its range.
    pub fn check(&self) -> Result<(), SamplingError> {
        let finite_from = |low: f32| move |value: f32| value.is_finite() && value >= low;
        let share = |value: f32| (0.0..=1.0).contains(&value);
        in_range("--temp", self.temperature, finite_from(0.0), "a number from 0")?;
        in_range("--top-p", self.top_p, share, "from 0 to 1")?;
        in_range("--min-p", self.min_p, share, "from 0 to 1")?;
        in_range("--typical", self.typical_p, share, "from 0 to 1")?;
        in_range("--repeat-penalty", self.repeat_penalty, |v| v.is_finite() && v > 0.0, "a number above 0")?;
        in_range("--presence-penalty", self.presence_penalty, f32::is_finite, "a number")?;
        in_range("--frequency-penalty", self.frequency_penalty, f32::is_finite, "a number")?;
        in_range("--dry-multiplier", self.dry_multiplier, finite_from(0.0), "a number from 0")?;
        in_range("--dry-base", self.dry_base, finite_from(0.0), "a number from 0")?;
        in_range("--xtc-probability", self.xtc_probability, share, "from 0 to 1")?;
        in_range("--xtc-threshold", self.xtc_threshold, share, "from 0 to 1")?;
        in_range("--repeat-last-n", self.repeat_last_n, |v| v >= -1, "-1 (the context) or a count")?;
        in_range("--dry-last-n", self.dry_last_n, |v| v >= -1, "-1 (the context) or a count")?;
        for &(_, bias) in &self.logit_bias {
            in_range("--logit-bias", bias, |v| !v.is_nan() && v != f32::INFINITY, "a number or -inf")?;
        }
        Ok(())
    }
}

fn in_range<V: Copy + ToString>(
    option: &'static str,
    value: V,
    fits: impl Fn(V) -> bool,
    range: &'static str,
) -> Result<(), SamplingError> {
    if fits(value) {
        return Ok(());
    }
    Err(SamplingError::Range { option, value: value.to_string(), range })
}

/// A `last n` option for a step: -1 is the whole history.
pub(super) fn last(count: i64) -> Option<usize> {
    usize::try_from(count).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_greedy_are_in_range() {
        assert_eq!(SamplingOptions::default().check(), Ok(()));
        assert_eq!(SamplingOptions::greedy().check(), Ok(()));
    }

    #[test]
    fn an_option_out_of_range_is_named() {
        let faulty = [
            (SamplingOptions { temperature: -1.0, ..Default::default() }, "--temp"),
            (SamplingOptions { temperature: f32::NAN, ..Default::default() }, "--temp"),
            (SamplingOptions { top_p: 1.5, ..Default::default() }, "--top-p"),
            (SamplingOptions { repeat_penalty: 0.0, ..Default::default() }, "--repeat-penalty"),
            (SamplingOptions { repeat_last_n: -2, ..Default::default() }, "--repeat-last-n"),
            (SamplingOptions { logit_bias: vec![(0, f32::NAN)], ..Default::default() }, "--logit-bias"),
        ];
        for (options, name) in faulty {
            let message = options.check().unwrap_err().to_string();
            assert!(message.contains(name), "{message}");
        }
    }
}
