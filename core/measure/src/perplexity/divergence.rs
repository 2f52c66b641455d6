//! [`Divergence`]: how a model differs from a base, over the scored tokens of a text.

use super::scoring::Compared;
use serde::Serialize;

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// Its standard error; 0 if there are too few values.
    pub error: f64,
}

impl Estimate {
    /// The mean of these values. Its error is `sqrt((mean(x^2) - mean(x)^2) / (n - 1))`, as in llama-perplexity.
    pub fn mean(values: impl Iterator<Item = f64>) -> Self {
        let (mut count, mut sum, mut squares) = (0usize, 0.0, 0.0);
        for value in values {
            count += 1;
            sum += value;
            squares += value * value;
        }
        if count == 0 {
            return Self::default();
        }
        let value = sum / count as f64;
        let spread = (squares / count as f64 - value * value).max(0.0);
        let error = if count > 1 { (spread / (count - 1) as f64).sqrt() } else { 0.0 };
        Self { value, error }
    }

    /// `exp` of the mean, with its error in first order.
    pub(crate) fn exponential(self) -> Self {
        let value = libm::exp(self.value);
        Self { value, error: self.error * value }
    }
}

/// How a model differs from a base.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Divergence {
    /// Perplexity of the base on the same tokens.
    pub base_perplexity: Estimate,
    /// Mean of `ln(perplexity / base perplexity)` over the tokens, with the error of the difference.
    pub ln_ratio: Estimate,
    /// Mean Kullback-Leibler divergence from the base, in nats.
    pub kl: Estimate,
    /// The median of the divergences.
    pub kl_median: f64,
    /// The 99th percentile of the divergences.
    pub kl_99: f64,
    /// The 99.9th percentile of the divergences.
    pub kl_999: f64,
    /// The largest divergence.
    pub kl_max: f64,
    /// The share of rows for which both models have the same most likely token.
    pub same_top: Estimate,
    /// Mean difference of the probability of the next token: the model's minus the base's.
    pub delta_p: Estimate,
    /// Root mean square of the same difference.
    pub delta_p_rms: f64,
}

impl Divergence {
    /// The statistics of these rows.
    pub(crate) fn of(rows: &[Compared]) -> Self {
        let mean = |of: fn(&Compared) -> f64| Estimate::mean(rows.iter().map(of));
        let mut kl: Vec<f64> = rows.iter().map(|row| row.kl).collect();
        kl.sort_by(f64::total_cmp);
        Self {
            base_perplexity: mean(|row| row.base_nll).exponential(),
            ln_ratio: mean(|row| row.nll - row.base_nll),
            kl: mean(|row| row.kl),
            kl_median: quantile(&kl, 0.5),
            kl_99: quantile(&kl, 0.99),
            kl_999: quantile(&kl, 0.999),
            kl_max: kl.last().copied().unwrap_or_default(),
            same_top: mean(|row| f64::from(u8::from(row.same_top))),
            delta_p: mean(|row| row.delta_p),
            delta_p_rms: mean(|row| row.delta_p * row.delta_p).value.sqrt(),
        }
    }
}

/// A quantile of sorted values with linear interpolation; 0 if there are none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let (below, rest) = (place.floor() as usize, place.fract());
    let above = sorted[(below + 1).min(last)];
    sorted[below] + rest * (above - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_errors_are_those_of_the_definitions() {
        assert_eq!(quantile(&[1.0, 2.0, 3.0, 5.0], 0.5), 2.5);
        assert_eq!((quantile(&[1.0, 2.0, 5.0], 0.75), quantile(&[4.0], 0.99)), (3.5, 4.0));
        let made = Estimate::mean([1.0, 2.0, 3.0, 6.0].into_iter());
        assert_eq!((made.value, made.error), (3.0, (3.5f64 / 3.0).sqrt()));
        assert_eq!(Estimate::mean(std::iter::empty()), Estimate::default());
    }
}
