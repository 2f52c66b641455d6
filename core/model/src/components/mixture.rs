//! `FeedForwardMixture`: whole feed-forwards as experts with a gate, and [`Mixtures`], which puts them into a model.

use crate::context::TransformContext;
use crate::expert_plan::ExpertPlan;
use crate::linear::{DenseLinear, Linear};
use crate::linear_input::LinearInput;
use crate::router::{Routing, softmax};
use crate::rows::Rows;
use crate::traits::{FeedForward, Raw};
use crate::wrapper::FeedForwardWrapper;
use crate::{ModelError, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which rows choose an expert together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChooseBy {
    /// Those of a sequence in a step: a prompt makes one choice, every token that follows it makes its own (AnyMoE).
    Prompt,
    /// Each row for itself.
    Token,
}

/// How the expert of a row is found.
#[derive(Clone, Debug)]
pub enum MixtureGate {
    /// Softmax of a linear `[D]` to `[experts]`; the largest mean over the rows that choose together wins.
    Learned {
        /// `[D]` to `[experts]`.
        product: DenseLinear,
        /// Which rows choose together.
        by: ChooseBy,
    },
    /// The same expert for every row; used while a gate is trained.
    Always(usize),
}

/// Feed-forwards of one width, of which each row uses one, unweighted (AnyMoE, Buehler, 2024).
///
/// The first expert is the model's own. Rows with the same expert are computed together.
pub(crate) struct FeedForwardMixture {
    own: Box<dyn FeedForward>,
    others: Vec<Arc<dyn FeedForward>>,
    gate: MixtureGate,
}

impl FeedForwardMixture {
    /// A mixture of the model's own feed-forward and others.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a gate of another number of experts.
    pub(crate) fn new(
        own: Box<dyn FeedForward>,
        others: Vec<Arc<dyn FeedForward>>,
        gate: MixtureGate,
    ) -> Result<Self> {
        let count = others.len() + 1;
        let found = match &gate {
            MixtureGate::Learned { product, .. } if product.out_features() != count => {
                Some(format!("{} rows", product.out_features()))
            }
            MixtureGate::Always(expert) if *expert >= count => Some(format!("expert {expert}")),
            _ => None,
        };
        match found {
            None => Ok(Self { own, others, gate }),
            Some(found) => Err(ModelError::Shape {
                what: "gate of a mixture".to_owned(),
                expected: format!("{count} experts"),
                found,
            }),
        }
    }

    fn expert(&self, index: usize) -> Option<&dyn FeedForward> {
        match index.checked_sub(1) {
            None => Some(&*self.own),
            Some(other) => self.others.get(other).map(|expert| &**expert),
        }
    }

    /// The expert of every row, and the factor of its output: NaN if the gate returns NaN, so that the result of such a
    /// row cannot look valid.
    fn route(&self, x: &Rows, context: &TransformContext) -> Result<Routing> {
        let (product, by) = match &self.gate {
            MixtureGate::Learned { product, by } => (product, by),
            MixtureGate::Always(expert) => {
                let (experts, weights) = (vec![*expert as u32; x.rows()], vec![1.0; x.rows()]);
                return Ok(Routing { top_k: 1, experts, weights });
            }
        };
        let logits = product.forward(&LinearInput::new(x), context)?;
        let logits = context.compute.backend.read(&logits)?;
        let width = product.out_features();
        let mut routing = Routing { top_k: 1, experts: Vec::new(), weights: Vec::new() };
        match by {
            ChooseBy::Token => logits.chunks_exact(width).for_each(|row| choose(row, width, &mut routing)),
            ChooseBy::Prompt => {
                for part in context.layout.sequences() {
                    let rows = logits.get(part.rows.start * width..part.rows.end * width).unwrap_or_default();
                    choose(rows, width, &mut routing);
                }
            }
        }
        Ok(routing)
    }

    /// Rows of several experts, each group with its own.
    fn scattered(
        &self,
        x: &Rows,
        raw: Raw,
        routing: &Routing,
        context: &mut TransformContext,
    ) -> Result<Rows> {
        let plan = ExpertPlan::new(routing, self.others.len() + 1)?;
        let backend = Arc::clone(&context.compute.backend);
        let mut out = backend.upload(vec![0.0; x.rows() * x.cols()], x.cols())?;
        for (expert, packed) in plan.groups() {
            let (Some(part), Some(rows)) = (self.expert(*expert), plan.tokens().get(packed.clone())) else {
                continue;
            };
            let own = backend.select(x, rows)?;
            let (stream, block) = (backend.select(raw.stream, rows)?, backend.select(raw.block, rows)?);
            let made = part.forward(&own, Raw { stream: &stream, block: &block }, context)?;
            out = backend.add_rows(out, rows, &made)?;
        }
        Ok(out)
    }
}

/// The expert of rows that choose together: that of the largest mean of their softmaxes, the first of equal ones.
fn choose(logits: &[f32], width: usize, routing: &mut Routing) {
    let rows = logits.len() / width.max(1);
    let mut means = vec![0.0f32; width];
    for row in logits.chunks_exact(width) {
        let scores = softmax(row.iter().copied());
        means.iter_mut().zip(scores).for_each(|(mean, score)| *mean += score / rows as f32);
    }
    let mut best = 0;
    for (index, mean) in means.iter().enumerate() {
        if *mean > means[best] {
            best = index;
        }
    }
    let broken = means.iter().any(|mean| !mean.is_finite());
    routing.experts.extend(std::iter::repeat_n(best as u32, rows));
    routing.weights.extend(std::iter::repeat_n(if broken { f32::NAN } else { 1.0 }, rows));
}

impl FeedForward for FeedForwardMixture {
    fn forward(&self, x: &Rows, raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        let routing = self.route(x, context)?;
        context.hooks.chosen(&routing.experts, x, context)?;
        let first = routing.experts.first().copied().unwrap_or(0);
        let together = routing.experts.iter().all(|expert| *expert == first);
        let out = match self.expert(first as usize).filter(|_| together) {
            Some(only) => only.forward(x, raw, context)?,
            None => self.scattered(x, raw, &routing, context)?,
        };
        if routing.weights.iter().all(|weight| *weight == 1.0) {
            return Ok(out);
        }
        context.compute.backend.scale_rows(out, &routing.weights)
    }

    fn takes_whole_prompts(&self) -> bool {
        matches!(self.gate, MixtureGate::Learned { by: ChooseBy::Prompt, .. })
    }

    fn company_dependent(&self) -> Option<&'static str> {
        let others = || self.others.iter().find_map(|expert| expert.company_dependent());
        self.own.company_dependent().or_else(others)
    }
}

/// The experts that join the feed-forward of one layer.
pub struct LayerMixture {
    /// The experts after the model's own.
    pub others: Vec<Arc<dyn FeedForward>>,
    /// Who chooses.
    pub gate: MixtureGate,
}

/// The mixtures of a model, by layer.
#[derive(Default)]
pub struct Mixtures {
    layers: BTreeMap<usize, LayerMixture>,
}

impl Mixtures {
    /// These mixtures, by layer.
    pub fn new(layers: BTreeMap<usize, LayerMixture>) -> Self {
        Self { layers }
    }
}

impl FeedForwardWrapper for Mixtures {
    fn changes(&self, layer: usize) -> bool {
        self.layers.contains_key(&layer)
    }

    fn feed_forward(&self, layer: usize, part: Box<dyn FeedForward>) -> Result<Box<dyn FeedForward>> {
        let Some(LayerMixture { others, gate }) = self.layers.get(&layer) else { return Ok(part) };
        Ok(Box::new(FeedForwardMixture::new(part, others.clone(), gate.clone())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(logits: &[f32], width: usize) -> Routing {
        let mut routing = Routing { top_k: 1, experts: Vec::new(), weights: Vec::new() };
        choose(logits, width, &mut routing);
        routing
    }

    /// `torch.softmax(x, -1).mean(0)` of the second is [0.4128, 0.5872].
    #[test]
    fn rows_choose_by_the_mean_of_their_softmaxes() {
        let routing = chosen(&[9.0, 0.0, 0.0, 0.6, 0.0, 0.6], 2);
        assert_eq!(routing.experts, [0, 0, 0]);
        let routing = chosen(&[9.0, 0.0, 0.0, 2.0, 0.0, 2.0], 2);
        assert_eq!(routing.experts, [1, 1, 1], "means of the logits would be 3 and 1.3");
        assert_eq!(chosen(&[1.0, 1.0], 2).experts, [0]);
    }

    #[test]
    fn a_gate_that_gives_no_number_leaves_no_result() {
        for bad in [f32::NAN, f32::INFINITY] {
            assert!(chosen(&[0.0, bad], 2).weights.iter().all(|weight| weight.is_nan()), "{bad}");
        }
        assert_eq!(chosen(&[0.0, f32::MAX], 2).weights, [1.0]);
    }
}
