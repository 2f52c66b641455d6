//! The truncating steps against values that were worked out by hand.

use super::*;

/// Candidates with these probabilities (they sum to 1): token `i` has `probabilities[i]`.
fn with_probabilities(probabilities: &[f32]) -> Candidates {
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
    Candidates::from_logits(&logits)
}

fn kept(mut step: impl LogitsStep, probabilities: &[f32]) -> Vec<u32> {
    let mut candidates = with_probabilities(probabilities);
    step.apply(&mut candidates, &[]).unwrap();
    let mut ids: Vec<u32> = candidates.entries().iter().map(|candidate| candidate.id).collect();
    ids.sort_unstable();
    ids
}

// llama.cpp's own cases (tests/test-sampling.cpp), on the distribution 0.1, 0.2, 0.3, 0.4.
const TENTHS: [f32; 4] = [0.1, 0.2, 0.3, 0.4];

#[test]
fn top_k_keeps_the_best() {
    assert_eq!(kept(TopK(1), &TENTHS), [3]);
    assert_eq!(kept(TopK(3), &TENTHS), [1, 2, 3]);
    assert_eq!(kept(TopK(4), &TENTHS), [0, 1, 2, 3]);
    assert_eq!(kept(TopK(0), &TENTHS), [0, 1, 2, 3]);
    assert_eq!(kept(TopK(99), &TENTHS), [0, 1, 2, 3]);
}

#[test]
fn equal_logits_are_kept_by_id() {
    assert_eq!(kept(TopK(2), &[0.25, 0.25, 0.25, 0.25]), [0, 1]);
}

#[test]
fn top_p_keeps_the_nucleus() {
    let top_p = |p| kept(TopP { p, min_keep: 0 }, &TENTHS);
    assert_eq!(top_p(0.0), [3]);
    assert_eq!(top_p(0.65), [2, 3]);
    assert_eq!(top_p(0.8), [1, 2, 3]);
    assert_eq!(top_p(1.0), [0, 1, 2, 3]);
}

/// The kept probabilities reach `p`: if they are equal to it, no other candidate is kept.
#[test]
fn top_p_stops_where_the_sum_is_equal_to_p() {
    assert_eq!(kept(TopP { p: 0.5, min_keep: 0 }, &[0.5, 0.5]), [0]);
    assert_eq!(kept(TopP { p: 0.75, min_keep: 0 }, &[0.25, 0.25, 0.25, 0.25]), [0, 1, 2]);
}

#[test]
fn top_p_keeps_at_least_min_keep() {
    assert_eq!(kept(TopP { p: 0.1, min_keep: 2 }, &TENTHS), [2, 3]);
}

#[test]
fn min_p_compares_with_the_best() {
    let min_p = |p| kept(MinP { p, min_keep: 0 }, &TENTHS);
    assert_eq!(min_p(0.0), [0, 1, 2, 3]);
    assert_eq!(min_p(0.24), [0, 1, 2, 3]);
    assert_eq!(min_p(0.26), [1, 2, 3]);
    assert_eq!(min_p(0.49), [1, 2, 3]);
    assert_eq!(min_p(0.51), [2, 3]);
    assert_eq!(min_p(0.74), [2, 3]);
    assert_eq!(min_p(0.76), [3]);
    assert_eq!(min_p(1.0), [3]);
}

#[test]
fn min_p_keeps_at_least_min_keep() {
    assert_eq!(kept(MinP { p: 1.0, min_keep: 3 }, &TENTHS), [1, 2, 3]);
}

#[test]
fn typical_prefers_tokens_near_the_entropy() {
    // llama.cpp: 0.97 and three times 0.01; entropy 0.168, the likely token is the closest to it.
    assert_eq!(kept(Typical { p: 0.5, min_keep: 0 }, &[0.97, 0.01, 0.01, 0.01]), [0]);
    // 0.4, 0.2, 0.2, 0.2: entropy 1.332; surprises 0.916 and 1.609, so the three equal ones (0.277 away) come before
    // the likely one (0.416 away), and 0.2 + 0.2 + 0.2 exceeds 0.5.
    assert_eq!(kept(Typical { p: 0.5, min_keep: 0 }, &[0.4, 0.2, 0.2, 0.2]), [1, 2, 3]);
    assert_eq!(kept(Typical { p: 1.0, min_keep: 0 }, &[0.4, 0.2, 0.2, 0.2]), [0, 1, 2, 3]);
}

#[test]
fn forbidden_tokens_do_not_disturb_typical() {
    let mut candidates = Candidates::from_logits(&[0.0, f32::NEG_INFINITY, 0.0]);
    Typical { p: 0.9, min_keep: 0 }.apply(&mut candidates, &[]).unwrap();
    let ids: Vec<u32> = candidates.entries().iter().map(|candidate| candidate.id).collect();
    assert_eq!(ids, [0, 2]);
}
