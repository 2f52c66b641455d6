//! Routing: which experts a token uses, and with what weights. Sums run over the experts in order, and exponentials are
//! the same code on every machine, so the choice is the same too.

use crate::{ModelError, Result};
use menagerie_formulas::{GroupScore, RouterScore, RouterSelect, RouterWeights, SparseMixer};

/// Group-limited selection (DeepSeek-V2, V3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSelection {
    /// Groups of consecutive experts.
    pub count: usize,
    /// Groups that stay in the selection.
    pub keep: usize,
    /// How a group scores.
    pub score: GroupScore,
}

/// The rule that turns router logits into experts and weights.
#[derive(Clone, Debug)]
pub struct RouterRule {
    /// How logits become scores.
    pub score: RouterScore,
    /// What the choice is by.
    pub select: RouterSelect,
    /// `[E]`, added for the choice only.
    pub select_bias: Option<Vec<f32>>,
    /// Choice of groups first.
    pub groups: Option<GroupSelection>,
    /// The operation on the chosen weights.
    pub weights: RouterWeights,
    /// Multiplies the weights.
    pub scale: f32,
    /// Experts per token.
    pub top_k: usize,
}

/// Experts and weights of every token, best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    /// Experts per token.
    pub top_k: usize,
    /// `[T, top_k]`.
    pub experts: Vec<u32>,
    /// `[T, top_k]`.
    pub weights: Vec<f32>,
}

/// Routes rows of logits `[T, experts]`, read back from the backend. A row with a logit that is NaN or infinite gets
/// weights that are NaN, so that its result cannot look valid.
///
/// # Errors
/// Fewer experts than the number to choose.
pub fn route(logits: &[f32], experts: usize, rule: &RouterRule) -> Result<Routing> {
    let rows = logits.len().checked_div(experts).unwrap_or(0);
    if rule.top_k == 0 || rule.top_k > experts {
        return Err(ModelError::Shape {
            what: "experts per token".to_owned(),
            expected: format!("1 to {experts}"),
            found: rule.top_k.to_string(),
        });
    }
    let mut routing = Routing {
        top_k: rule.top_k,
        experts: Vec::with_capacity(rows * rule.top_k),
        weights: Vec::with_capacity(rows * rule.top_k),
    };
    let mut chosen = Vec::new();
    for row in logits.chunks_exact(experts) {
        let broken = row.iter().any(|logit| !logit.is_finite());
        let weights = match rule.score {
            RouterScore::SparseMixer(SparseMixer { jitter }) => {
                let shares = sparse_mixer(row, rule.top_k, jitter, &mut chosen);
                final_weights(shares, rule)
            }
            _ => chosen_by_scores(row, rule, &mut chosen),
        };
        routing.weights.extend(weights.into_iter().map(|w| if broken { f32::NAN } else { w }));
        routing.experts.extend_from_slice(&chosen);
    }
    Ok(routing)
}

/// Selects experts by their scores, and returns their weights.
fn chosen_by_scores(row: &[f32], rule: &RouterRule, chosen: &mut Vec<u32>) -> Vec<f32> {
    let scores = score(row, rule.score);
    let mut selection = match rule.select {
        RouterSelect::Logits => row.to_vec(),
        RouterSelect::Scores => scores.clone(),
    };
    if let Some(bias) = &rule.select_bias {
        selection.iter_mut().zip(bias).for_each(|(s, b)| *s += b);
    }
    if let Some(groups) = rule.groups {
        keep_groups(&mut selection, groups);
    }
    top_k(&selection, rule.top_k, chosen);
    weights(chosen, row, &scores, rule)
}

/// Selects one expert after the other, and returns the share of each.
fn sparse_mixer(row: &[f32], k: usize, jitter: f32, chosen: &mut Vec<u32>) -> Vec<f32> {
    let mut left = row.to_vec();
    let (mut shares, mut best, mut all) = (Vec::with_capacity(k), Vec::new(), Vec::with_capacity(k));
    for _ in 0..k {
        top_k(&left, 1, &mut best);
        let Some(&expert) = best.first() else { break };
        let top = left[expert as usize];
        // 0 / 0 is not far.
        let far = |x: f32| (top - x) / x.abs().max(top) > 2.0 * jitter;
        let near = left.iter().zip(row).filter(|(_, x)| !far(**x)).map(|(left, _)| libm::expf(left - top));
        shares.push(1.0 / near.sum::<f32>());
        left[expert as usize] = f32::NEG_INFINITY;
        all.push(expert);
    }
    *chosen = all;
    shares
}

fn score(logits: &[f32], kind: RouterScore) -> Vec<f32> {
    match kind {
        RouterScore::Softmax => softmax(logits.iter().copied()),
        RouterScore::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + libm::expf(-x))).collect(),
        RouterScore::SoftmaxOfSelected | RouterScore::SparseMixer(_) => logits.to_vec(),
        RouterScore::SqrtSoftplus => logits.iter().map(|x| softplus(*x).sqrt()).collect(),
    }
}

/// `ln(1 + exp(x))` without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + libm::log1pf(libm::expf(-x.abs()))
}

pub(crate) fn softmax(logits: impl Iterator<Item = f32> + Clone) -> Vec<f32> {
    let highest = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    let mut out: Vec<f32> = logits.map(|x| libm::expf(x - highest)).collect();
    let sum: f32 = out.iter().sum();
    out.iter_mut().for_each(|x| *x /= sum);
    out
}

fn weights(chosen: &[u32], logits: &[f32], scores: &[f32], rule: &RouterRule) -> Vec<f32> {
    let picked = |values: &[f32]| chosen.iter().map(|e| values[*e as usize]).collect::<Vec<f32>>();
    let weights = match rule.score {
        RouterScore::SoftmaxOfSelected => softmax(picked(logits).into_iter()),
        _ => picked(scores),
    };
    final_weights(weights, rule)
}

fn final_weights(mut weights: Vec<f32>, rule: &RouterRule) -> Vec<f32> {
    let sum: f32 = weights.iter().sum();
    if rule.weights == RouterWeights::SumToOne && sum > 0.0 {
        weights.iter_mut().for_each(|w| *w /= sum);
    }
    weights.iter_mut().for_each(|w| *w *= rule.scale);
    weights
}

/// Excludes the experts of all but the best groups.
fn keep_groups(selection: &mut [f32], groups: GroupSelection) {
    let size = selection.len() / groups.count.max(1);
    if groups.count <= 1 || size == 0 {
        return;
    }
    let group_scores: Vec<f32> =
        selection.chunks(size).take(groups.count).map(|g| group_score(g, groups)).collect();
    let mut kept = Vec::new();
    top_k(&group_scores, groups.keep.min(group_scores.len()), &mut kept);
    for (index, group) in selection.chunks_mut(size).enumerate() {
        if !kept.contains(&(index as u32)) {
            group.fill(f32::NEG_INFINITY);
        }
    }
}

fn group_score(group: &[f32], groups: GroupSelection) -> f32 {
    let (mut best, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &value in group {
        if value > best {
            (best, second) = (value, best);
        } else if value > second {
            second = value;
        }
    }
    match groups.score {
        GroupScore::SumOfBestTwo if group.len() > 1 => best + second,
        _ => best,
    }
}

/// The indices of the `k` largest scores, largest first; of equal scores the lower index comes first; NaN comes last.
/// `out` is overwritten and has `min(k, scores.len())` entries.
fn top_k(scores: &[f32], k: usize, out: &mut Vec<u32>) {
    out.clear();
    let key = |index: u32| {
        let score = scores[index as usize];
        if score.is_nan() { f32::NEG_INFINITY } else { score }
    };
    for index in 0..scores.len() as u32 {
        let place = out.partition_point(|&better| key(better) >= key(index));
        if place < k {
            out.truncate(k - 1);
            out.insert(place, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_lower_index() {
        let mut out = vec![9, 9];
        top_k(&[1.0, 3.0, 2.0, 3.0, 3.0], 2, &mut out);
        assert_eq!(out, [1, 3]);
        top_k(&[0.0; 5], 3, &mut out);
        assert_eq!(out, [0, 1, 2]);
        top_k(&[1.0, 2.0], 5, &mut out);
        assert_eq!(out, [1, 0]);
        top_k(&[1.0, 2.0], 0, &mut out);
        assert!(out.is_empty());
    }

    /// Sorting NaN last would ignore these experts, and the others would answer as if nothing were wrong.
    #[test]
    fn a_row_with_a_broken_logit_has_no_weights() {
        let scores = [
            RouterScore::Softmax,
            RouterScore::Sigmoid,
            RouterScore::SoftmaxOfSelected,
            RouterScore::SqrtSoftplus,
            RouterScore::SparseMixer(SparseMixer { jitter: 0.01 }),
        ];
        for score in scores {
            for (select, weights) in [
                (RouterSelect::Scores, RouterWeights::SumToOne),
                (RouterSelect::Logits, RouterWeights::AsScored),
            ] {
                let (select_bias, groups) = (None, None);
                let rule = RouterRule { score, select, select_bias, groups, weights, scale: 1.0, top_k: 2 };
                for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    let logits = [1.0, broken, 2.0, 0.5, 0.1, 3.0, 2.0, 0.2];
                    let routing = route(&logits, 4, &rule).unwrap();
                    assert!(routing.weights[..2].iter().all(|w| w.is_nan()), "{score:?} {broken}");
                    assert_eq!(routing.experts[2..], [1, 2]);
                    assert!(routing.weights[2..].iter().all(|w| w.is_finite()), "{score:?}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_a_number_comes_last() {
        let mut out = Vec::new();
        top_k(&[f32::NAN, 1.0, f32::INFINITY, -1.0], 3, &mut out);
        assert_eq!(out, [2, 1, 3]);
    }
}
