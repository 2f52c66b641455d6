//! The order of a router and of the sum over experts, in plain code.
//!
//! A softmax takes `libm`'s exponential of the difference of each logit to the largest, adds them from the first to the
//! last, and divides each by the sum. Of equal scores the lower index is chosen; NaN is below everything. The weights
//! of the chosen experts are added best first, divided by that sum, and then scaled. A row's experts are added best
//! first, from 0; each product with a weight is rounded before it is added.

use menagerie_formulas::{GroupScore, RouterScore, RouterSelect, RouterWeights, SparseMixer};
use menagerie_model::{GroupSelection, RouterApply, RouterRule};

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Sums of a softmax, and of chosen weights, from the last to the first.
    SumsBackwards,
    /// Times one over the sum where the order divides.
    Reciprocals,
    /// An exponential that is rounded from f64.
    OtherExponential,
    /// Of equal scores the higher index.
    HigherOfEquals,
    /// The weights scaled before they are divided by their sum.
    ScaledFirst,
    /// Weights are the scores of the choice, including the selection bias.
    BiasInWeights,
    /// Experts added up from the last choice to the first.
    LastFirst,
    /// Experts added up by their index.
    ByIndex,
    /// Products with weights fused to the sum.
    Fused,
}

impl Fault {
    /// Those of routers.
    pub(crate) const OF_ROUTERS: [Fault; 6] = [
        Fault::SumsBackwards,
        Fault::Reciprocals,
        Fault::OtherExponential,
        Fault::HigherOfEquals,
        Fault::ScaledFirst,
        Fault::BiasInWeights,
    ];
    /// Those of the sum over experts.
    pub(crate) const OF_SUMS: [Fault; 3] = [Fault::LastFirst, Fault::ByIndex, Fault::Fused];
}

fn sum(values: &[f32], fault: Option<Fault>) -> f32 {
    let add = |sum: f32, value: &f32| sum + value;
    match fault {
        Some(Fault::SumsBackwards) => values.iter().rev().fold(0.0, add),
        _ => values.iter().fold(0.0, add),
    }
}

fn exp(x: f32, fault: Option<Fault>) -> f32 {
    match fault {
        Some(Fault::OtherExponential) => libm::exp(f64::from(x)) as f32,
        _ => libm::expf(x),
    }
}

fn shares(values: &[f32], fault: Option<Fault>) -> Vec<f32> {
    let sum = sum(values, fault);
    let share = |value: &f32| match fault {
        Some(Fault::Reciprocals) => value * (1.0 / sum),
        _ => value / sum,
    };
    values.iter().map(share).collect()
}

fn softmax(logits: &[f32], fault: Option<Fault>) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    shares(&logits.iter().map(|x| exp(x - largest, fault)).collect::<Vec<f32>>(), fault)
}

/// All indices, best first.
fn ranked(scores: &[f32], fault: Option<Fault>) -> Vec<usize> {
    let key = |at: usize| if scores[at].is_nan() { f32::NEG_INFINITY } else { scores[at] };
    let mut order: Vec<usize> = (0..scores.len()).collect();
    if fault == Some(Fault::HigherOfEquals) {
        order.reverse();
    }
    order.sort_by(|&a, &b| key(b).partial_cmp(&key(a)).unwrap());
    order
}

/// The part of `selection` that remains after groups were chosen.
fn within_groups(selection: &[f32], groups: GroupSelection, fault: Option<Fault>) -> Vec<f32> {
    let size = selection.len() / groups.count;
    let score = |group: &[f32]| {
        let mut best: Vec<f32> = group.iter().copied().filter(|value| !value.is_nan()).collect();
        best.sort_by(|a, b| b.partial_cmp(a).unwrap());
        best.resize(best.len().max(2), f32::NEG_INFINITY);
        if groups.score == GroupScore::SumOfBestTwo && size > 1 { best[0] + best[1] } else { best[0] }
    };
    let scores: Vec<f32> = selection.chunks(size).map(score).collect();
    let kept = &ranked(&scores, fault)[..groups.keep];
    let within = |at: usize| if kept.contains(&(at / size)) { selection[at] } else { f32::NEG_INFINITY };
    (0..selection.len()).map(within).collect()
}

/// SparseMixer: one expert after the other, and its share of the remaining ones that are near it.
fn mixed(row: &[f32], (k, jitter): (usize, f32), fault: Option<Fault>) -> (Vec<usize>, Vec<f32>) {
    let (mut left, mut chosen, mut weights) = (row.to_vec(), Vec::new(), Vec::new());
    for _ in 0..k {
        let best = ranked(&left, fault)[0];
        let top = left[best];
        let near = |at: &usize| {
            // NaN is near.
            let far = (top - row[*at]) / row[*at].abs().max(top) > 2.0 * jitter;
            !far
        };
        let powers: Vec<f32> = (0..row.len()).filter(near).map(|at| exp(left[at] - top, fault)).collect();
        weights.push(1.0 / sum(&powers, fault));
        left[best] = f32::NEG_INFINITY;
        chosen.push(best);
    }
    (chosen, weights)
}

/// Experts and weights of one row of logits, best first.
pub(crate) fn route(row: &[f32], rule: &RouterRule, fault: Option<Fault>) -> (Vec<u32>, Vec<f32>) {
    let softplus = |x: f32| x.max(0.0) + libm::log1pf(exp(-x.abs(), fault));
    let (chosen, weights) = match rule.score {
        RouterScore::SparseMixer(SparseMixer { jitter }) => mixed(row, (rule.top_k, jitter), fault),
        score => {
            let scores: Vec<f32> = match score {
                RouterScore::Softmax => softmax(row, fault),
                RouterScore::Sigmoid => row.iter().map(|x| 1.0 / (1.0 + exp(-x, fault))).collect(),
                RouterScore::SqrtSoftplus => row.iter().map(|x| softplus(*x).sqrt()).collect(),
                _ => row.to_vec(),
            };
            let mut by = if rule.select == RouterSelect::Logits { row.to_vec() } else { scores.clone() };
            if let Some(bias) = &rule.select_bias {
                by.iter_mut().zip(bias).for_each(|(by, bias)| *by += bias);
            }
            if let Some(groups) = rule.groups.filter(|groups| groups.count > 1) {
                by = within_groups(&by, groups, fault);
            }
            let chosen = ranked(&by, fault)[..rule.top_k].to_vec();
            let from = if fault == Some(Fault::BiasInWeights) { &by } else { &scores };
            let picked: Vec<f32> = chosen.iter().map(|&at| from[at]).collect();
            let after = score == RouterScore::SoftmaxOfSelected;
            (chosen, if after { softmax(&picked, fault) } else { picked })
        }
    };
    let scaled = |weights: Vec<f32>| weights.iter().map(|w| w * rule.scale).collect::<Vec<f32>>();
    let whole = |weights: Vec<f32>| match rule.weights {
        RouterWeights::SumToOne if sum(&weights, fault) > 0.0 => shares(&weights, fault),
        _ => weights,
    };
    let weights = match fault {
        Some(Fault::ScaledFirst) => whole(scaled(weights)),
        _ => scaled(whole(weights)),
    };
    let broken = row.iter().any(|logit| !logit.is_finite());
    let weights = if broken { vec![f32::NAN; weights.len()] } else { weights };
    (chosen.into_iter().map(|at| at as u32).collect(), weights)
}

/// The sum of what a token's experts give, `[experts chosen][D]`, with their weights, best first.
pub(crate) fn combine(
    outputs: &[Vec<f32>],
    (experts, weights): (&[u32], &[f32]),
    apply: RouterApply,
    fault: Option<Fault>,
) -> Vec<f32> {
    let mut order: Vec<usize> = (0..outputs.len()).collect();
    match fault {
        Some(Fault::LastFirst) => order.reverse(),
        Some(Fault::ByIndex) => order.sort_by_key(|&choice| experts[choice]),
        _ => {}
    }
    let mut total = vec![0f32; outputs[0].len()];
    for choice in order {
        let weight = if apply == RouterApply::ToOutput { weights[choice] } else { 1.0 };
        for (y, x) in total.iter_mut().zip(&outputs[choice]) {
            *y = if fault == Some(Fault::Fused) { weight.mul_add(*x, *y) } else { *y + weight * x };
        }
    }
    total
}
