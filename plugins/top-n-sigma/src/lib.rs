//! A sampler as a plugin: top-n-sigma (Tang et al., "Top-nσ: Not All Logits Are You Need", 2024).
//!
//! `--sampler menagerie/samplers:top-n-sigma` or, with an option, `--sampler menagerie/samplers:top-n-sigma=n=1.5`.

use menagerie_plugin::{Build, Component, Error, Result, SampleCall, Sampler, export, options};

options! {
    /// Options of `top-n-sigma`.
    pub struct TopNSigmaOptions {
        /// How many standard deviations of the logits a token may lie below the best one.
        n: f32 = Number(1.0),
    }
}

/// Drops tokens whose logit lies more than `n` standard deviations below the best one, whatever the temperature.
#[derive(Debug)]
pub struct TopNSigma {
    n: f32,
}

impl TopNSigma {
    /// Sets what is dropped to minus infinity; what was so before counts for nothing.
    pub fn apply(&self, logits: &mut [f32]) {
        let there = || logits.iter().copied().filter(|logit| *logit != f32::NEG_INFINITY).map(f64::from);
        let count = there().count().max(1) as f64;
        let mean = there().sum::<f64>() / count;
        let deviation = (there().map(|logit| (logit - mean).powi(2)).sum::<f64>() / count).sqrt();
        let best = there().fold(f64::NEG_INFINITY, f64::max);
        let least = best - f64::from(self.n) * deviation;
        for logit in logits.iter_mut().filter(|logit| f64::from(**logit) < least) {
            *logit = f32::NEG_INFINITY;
        }
    }
}

impl Component for TopNSigma {
    const NAME: &'static str = "top-n-sigma";
    const DOC: &'static str =
        "Drops tokens more than n standard deviations of the logits below the best one (Tang et al., 2024).";
    type Options = TopNSigmaOptions;

    fn create(options: TopNSigmaOptions, _build: &mut Build) -> Result<Self> {
        let TopNSigmaOptions { n } = options;
        if !n.is_finite() || n <= 0.0 {
            return Err(Error::new(format!("n is {n}, expected a number above 0")));
        }
        Ok(Self { n })
    }
}

impl Sampler for TopNSigma {
    fn sample(&self, call: SampleCall) -> Result<()> {
        self.apply(call.logits);
        Ok(())
    }
}

export! {
    id: "menagerie/samplers",
    components: [sampler TopNSigma],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(n: f32, probabilities: &[f32]) -> Vec<bool> {
        let mut logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
        TopNSigma { n }.apply(&mut logits);
        logits.into_iter().map(|logit| logit != f32::NEG_INFINITY).collect()
    }

    /// The distribution and what is kept of it are those of llama.cpp's tests/test-sampling.cpp (`test_top_n_sigma`).
    #[test]
    fn what_is_kept_is_what_llama_cpp_keeps() {
        assert_eq!(kept(1.0, &[0.1, 0.2, 0.3, 0.4]), [false, false, true, true]);
        assert_eq!(kept(3.0, &[0.1, 0.2, 0.3, 0.4]), [true; 4]);
    }

    #[test]
    fn equal_logits_and_what_was_dropped_before_stay_as_they_are() {
        assert_eq!(kept(0.5, &[0.25; 4]), [true; 4]);
        // Minus infinity is no part of mean and deviation.
        assert_eq!(kept(1.0, &[0.1, 0.0, 0.2, 0.3, 0.4, 0.0]), [false, false, false, true, true, false]);
        assert_eq!(kept(1.0, &[0.0, 1.0]), [false, true]);
    }
}
