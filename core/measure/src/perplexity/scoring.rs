//! The score of a row of logits for the next token, and the difference between two rows.

use menagerie_kernels::{KernelError, Pool};

/// The scores of a row of logits `[V]` under two models.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Compared {
    /// Negative log-probability of the next token, in nats.
    pub(crate) nll: f64,
    /// The same under the base.
    pub(crate) base_nll: f64,
    /// Kullback-Leibler divergence from the base, in nats.
    pub(crate) kl: f64,
    /// Whether both have the same most likely token.
    pub(crate) same_top: bool,
    /// Probability of the next token, minus that under the base.
    pub(crate) delta_p: f64,
}

/// The normalization that is subtracted from every logit: `max + ln(sum(exp(x - max)))`.
fn normalizer(logits: &[f32]) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|logit| f64::from(libm::expf(logit - most))).sum();
    f64::from(most) + libm::log(sum)
}

/// The index of the largest value; the first of several.
fn top(values: &[f32]) -> usize {
    let larger = |best: usize, at: usize| if values[at] > values[best] { at } else { best };
    (0..values.len()).fold(0, larger)
}

/// Log-probabilities of logits, in place.
pub(crate) fn log_softmax(logits: &mut [f32]) {
    let normalizer = normalizer(logits);
    logits.iter_mut().for_each(|logit| *logit = (f64::from(*logit) - normalizer) as f32);
}

/// Negative log-probability of the next token, in nats. A token outside of the row has the probability 0.
pub(crate) fn surprise(logits: &[f32], token: u32) -> f64 {
    let logit = logits.get(token as usize).map_or(f64::NEG_INFINITY, |logit| f64::from(*logit));
    normalizer(logits) - logit
}

/// Compares one row of logits with log-probabilities of a base, those above `least`.
pub(crate) fn compare(logits: &[f32], base: &[f32], least: f32, token: u32) -> Compared {
    let normalizer = normalizer(logits);
    let mut kl = 0.0;
    for (logit, base) in logits.iter().zip(base).filter(|(_, base)| **base > least) {
        kl += f64::from(libm::expf(*base)) * (f64::from(*base) - f64::from(*logit) + normalizer);
    }
    let log_probability = |value: Option<&f32>| value.map_or(f64::NEG_INFINITY, |value| f64::from(*value));
    let own = log_probability(logits.get(token as usize)) - normalizer;
    let other = log_probability(base.get(token as usize));
    Compared {
        nll: -own,
        base_nll: -other,
        kl,
        same_top: top(logits) == top(base),
        delta_p: libm::exp(own) - libm::exp(other),
    }
}

/// The results of `of` for each of `rows` rows, computed by the pool, in the order of the rows.
pub(crate) fn over_rows<T: Default + Clone + Send>(
    pool: &Pool,
    rows: usize,
    of: &(dyn Fn(usize) -> T + Sync),
) -> Result<Vec<T>, KernelError> {
    let mut made = vec![T::default(); rows];
    pool.run_chunks(&mut made, 1, &|row, out| out[0] = of(row))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_scored_as_written_out_by_hand() {
        let logits = [1.0f32, 2.0, 4.0];
        let sum: f64 = [1.0f64, 2.0, 4.0].iter().map(|x| x.exp()).sum();
        for (token, logit) in logits.iter().enumerate() {
            let expected = sum.ln() - f64::from(*logit);
            assert!((surprise(&logits, token as u32) - expected).abs() < 1e-6);
        }
        assert_eq!(surprise(&logits, 3), f64::INFINITY);
    }

    #[test]
    fn two_rows_differ_as_written_out_by_hand() {
        let (p, q) = ([0.5f64, 0.3, 0.2], [0.2f64, 0.5, 0.3]);
        let logits = q.map(|q| (q.ln() + 3.0) as f32);
        let base = p.map(|p| p.ln() as f32);
        let made = compare(&logits, &base, f32::NEG_INFINITY, 2);
        let kl: f64 = p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum();
        assert!((made.kl - kl).abs() < 1e-6, "{made:?}");
        assert!((made.delta_p - 0.1).abs() < 1e-6 && !made.same_top);
        assert!((made.nll + 0.3f64.ln()).abs() < 1e-6 && (made.base_nll + 0.2f64.ln()).abs() < 1e-6);
        // Of equal values the first counts as the largest, in the logits and in the base.
        let ties = |logits: &[f32], base: &[f32]| compare(logits, base, f32::NEG_INFINITY, 0).same_top;
        assert!(ties(&[1.0, 3.0, 3.0], &[-3.0, -1.0, -2.0]) && ties(&[1.0, 3.0, 2.0], &[-3.0, -1.0, -1.0]));
        assert!(!ties(&[1.0, 3.0, 3.0], &[-3.0, -2.0, -1.0]) && !ties(&[1.0, 2.0, 3.0], &[-3.0, -1.0, -1.0]));
        let mut same = logits;
        log_softmax(&mut same);
        let none = compare(&logits, &same, f32::NEG_INFINITY, 0);
        assert!(none.kl.abs() < 1e-6 && none.same_top && none.delta_p.abs() < 1e-6);
    }
}
