//! Log probabilities of tokens, from the model's logits.

/// A token and its log probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TokenProbability {
    /// Token id.
    pub(crate) id: u32,
    /// Natural logarithm of its softmax probability over the whole vocabulary, before the chain.
    pub(crate) logprob: f32,
}

/// The log probability of `chosen` and of the `count` most likely tokens, best first (ties: lower id first).
///
/// `logits` is `[V]`; a `chosen` past it has probability 0.
pub(crate) fn log_probabilities(logits: &[f32], chosen: u32, count: usize) -> (f32, Vec<TokenProbability>) {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit - highest))).sum();
    let normalizer = f64::from(highest) + libm::log(sum);
    let logprob = |logit: f32| (f64::from(logit) - normalizer) as f32;
    let own = logits.get(chosen as usize).map_or(f32::NEG_INFINITY, |&logit| logprob(logit));
    if count == 0 {
        return (own, Vec::new());
    }
    let mut candidates = super::Candidates::from_logits(logits);
    candidates.keep_best(count);
    let top = candidates
        .entries()
        .iter()
        .map(|c| TokenProbability { id: c.id, logprob: logprob(c.logit) })
        .collect();
    (own, top)
}

/// The most likely token of a row of logits `[V]` (ties: lower id) and its probability. `None` for an empty row and for
/// one with NaN, or with only infinite values.
pub(crate) fn likeliest(logits: &[f32]) -> Option<(u32, f64)> {
    let (id, most) = (0u32..).zip(logits).reduce(|best, one| if one.1 > best.1 { one } else { best })?;
    let sum: f64 = logits.iter().map(|&logit| libm::exp(f64::from(logit - most))).sum();
    sum.is_finite().then(|| (id, 1.0 / sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_token_has_the_lowest_id_among_equals_and_none_is_found_beside_nan() {
        let (id, probability) = likeliest(&[0.0, 5.0f32.ln(), 2.0f32.ln()]).unwrap();
        assert_eq!(id, 1);
        assert!((probability - 0.625).abs() < 1e-6);
        assert_eq!(likeliest(&[f32::NEG_INFINITY, 1.0, 1.0]), Some((1, 0.5)));
        let without =
            [&[][..], &[f32::NAN, 1.0], &[1.0, f32::NAN], &[f32::NEG_INFINITY], &[0.0, f32::INFINITY]];
        assert_eq!(without.map(likeliest), [None; 5]);
    }

    #[test]
    fn probabilities_come_from_the_softmax() {
        // exp(ln 1) : exp(ln 2) : exp(ln 5) = 1/8, 2/8, 5/8; a constant added to all logits changes nothing.
        let logits: Vec<f32> = [1.0f32, 2.0, 5.0].iter().map(|x| x.ln() + 3.0).collect();
        let (own, top) = log_probabilities(&logits, 1, 2);
        assert!((own - 0.25f32.ln()).abs() < 1e-6);
        assert_eq!(top.iter().map(|t| t.id).collect::<Vec<_>>(), [2, 1]);
        assert!((top[0].logprob - 0.625f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn a_token_past_the_vocabulary_has_no_probability() {
        assert_eq!(log_probabilities(&[0.0], 7, 0).0, f32::NEG_INFINITY);
    }
}
