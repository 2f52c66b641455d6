//! Routing: which experts a token takes, and with what weights.

use super::{dims2, values};
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::top_k;

/// How router logits become scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterScore {
    /// Softmax over all experts.
    Softmax,
    /// Sigmoid of each.
    Sigmoid,
    /// Softmax over the chosen ones; the choice is by logits.
    SoftmaxOfSelected,
    /// `sqrt(ln(1 + exp(x)))`.
    SqrtSoftplus,
}

/// Group-limited selection (DeepSeek-V2, V3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSelection {
    /// Groups of consecutive experts.
    pub count: usize,
    /// Groups kept.
    pub keep: usize,
    /// Whether a group scores by the sum of its best two, else by its best.
    pub sum_of_best_two: bool,
}

/// Everything that turns router logits into experts and weights.
#[derive(Clone, Debug)]
pub struct RouterRule {
    /// How logits become scores.
    pub score: RouterScore,
    /// Whether the choice is by logits instead of scores.
    pub select_by_logits: bool,
    /// `[E]`, added for the choice only.
    pub select_bias: Option<Vec<f32>>,
    /// Choice of groups first.
    pub groups: Option<GroupSelection>,
    /// Whether the chosen weights are divided by their sum.
    pub sum_to_one: bool,
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

/// Routes rows of logits `[T, E]`.
///
/// # Errors
/// Fewer experts than are to be chosen.
pub fn route(logits: &Tensor, rule: &RouterRule) -> Result<Routing> {
    let (rows, experts) = dims2(logits, "router logits")?;
    if rule.top_k == 0 || rule.top_k > experts {
        return Err(ModelError::Shape {
            what: "experts per token".to_owned(),
            expected: format!("1 to {experts}"),
            found: rule.top_k.to_string(),
        });
    }
    let logits = values(logits)?;
    let mut routing = Routing {
        top_k: rule.top_k,
        experts: Vec::with_capacity(rows * rule.top_k),
        weights: Vec::with_capacity(rows * rule.top_k),
    };
    let mut chosen = Vec::new();
    for row in logits.chunks_exact(experts) {
        let scores = score(row, rule.score);
        let mut selection = if rule.select_by_logits { row.to_vec() } else { scores.clone() };
        if let Some(bias) = &rule.select_bias {
            selection.iter_mut().zip(bias).for_each(|(s, b)| *s += b);
        }
        if let Some(groups) = rule.groups {
            keep_groups(&mut selection, groups);
        }
        top_k(&selection, rule.top_k, &mut chosen);
        routing.weights.extend(weights(&chosen, row, &scores, rule));
        routing.experts.extend_from_slice(&chosen);
    }
    Ok(routing)
}

fn score(logits: &[f32], kind: RouterScore) -> Vec<f32> {
    match kind {
        RouterScore::Softmax => softmax(logits.iter().copied()),
        RouterScore::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
        RouterScore::SoftmaxOfSelected => logits.to_vec(),
        RouterScore::SqrtSoftplus => logits.iter().map(|x| softplus(*x).sqrt()).collect(),
    }
}

/// `ln(1 + exp(x))` without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn softmax(logits: impl Iterator<Item = f32> + Clone) -> Vec<f32> {
    let highest = logits.clone().fold(f32::NEG_INFINITY, f32::max);
    let mut out: Vec<f32> = logits.map(|x| (x - highest).exp()).collect();
    let sum: f32 = out.iter().sum();
    out.iter_mut().for_each(|x| *x /= sum);
    out
}

fn weights(chosen: &[u32], logits: &[f32], scores: &[f32], rule: &RouterRule) -> Vec<f32> {
    let picked = |values: &[f32]| chosen.iter().map(|e| values[*e as usize]).collect::<Vec<f32>>();
    let mut weights = match rule.score {
        RouterScore::SoftmaxOfSelected => softmax(picked(logits).into_iter()),
        _ => picked(scores),
    };
    let sum: f32 = weights.iter().sum();
    if rule.sum_to_one && sum > 0.0 {
        weights.iter_mut().for_each(|w| *w /= sum);
    }
    weights.iter_mut().for_each(|w| *w *= rule.scale);
    weights
}

/// Puts the experts of all but the best groups out of reach.
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
    if groups.sum_of_best_two && group.len() > 1 { best + second } else { best }
}
