//! [`MoeFeedForward`]: a mixture of experts.

use crate::activation::Activated;
use crate::context::TransformContext;
use crate::ops::{self, ExpertPlan, ExpertWeights, RouterRule};
use crate::traits::{FeedForward, Linear};
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::Activation;

/// What the router reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoeInput {
    /// What the experts get.
    Branch,
    /// The raw input of the block.
    BlockInput,
}

/// The routed experts: stacks of matrices.
pub struct Experts {
    /// `[E, F, D]`; absent for experts without a gate.
    pub gate: Option<ExpertWeights>,
    /// `[E, F, D]`.
    pub up: ExpertWeights,
    /// `[E, D, F]`.
    pub down: ExpertWeights,
    /// Activation of the gate, or of `up` where there is none.
    pub activation: Activation,
}

/// The expert that every token takes.
pub struct SharedExpert {
    /// The expert.
    pub expert: Box<dyn FeedForward>,
    /// `[D]` to `[1]`: its sigmoid multiplies the expert's output.
    pub gate: Option<Box<dyn Linear>>,
}

/// A router, its experts, and an expert that every token takes (Shazeer et al., 2017).
///
/// The outputs of a token's experts are added up best choice first, whatever else is in the step.
pub struct MoeFeedForward {
    /// `[D]` to `[E]`.
    pub router: Box<dyn Linear>,
    /// From logits to experts and weights.
    pub rule: RouterRule,
    /// What the router reads.
    pub input: MoeInput,
    /// The routed experts.
    pub experts: Experts,
    /// Whether the router weight multiplies an expert's input instead of its output.
    pub apply_to_input: bool,
    /// The expert that every token takes.
    pub shared: Option<SharedExpert>,
}

impl MoeFeedForward {
    fn routed(&self, x: &Activated, plan: &ExpertPlan, context: &TransformContext) -> Result<Tensor> {
        if self.apply_to_input {
            let x = Activated::new(&plan.weighted_inputs(x.tensor())?)?;
            let packed = self.run_experts(&x, plan, true, context)?;
            return ops::combine_experts(&packed, plan, false, context.compute);
        }
        let packed = self.run_experts(x, plan, false, context)?;
        ops::combine_experts(&packed, plan, true, context.compute)
    }

    /// Packed outputs `[packed rows, D]`.
    fn run_experts(
        &self,
        x: &Activated,
        plan: &ExpertPlan,
        packed: bool,
        context: &TransformContext,
    ) -> Result<Tensor> {
        let (experts, compute) = (&self.experts, context.compute);
        let inner = match &experts.gate {
            Some(gate) => {
                let [gate, up] = ops::experts_product([gate, &experts.up], x, plan, packed, compute)?;
                ops::gated(&gate, &up, experts.activation, compute)?
            }
            None => {
                let [up] = ops::experts_product([&experts.up], x, plan, packed, compute)?;
                ops::activate(up, experts.activation, compute)?
            }
        };
        let [out] = ops::experts_product([&experts.down], &Activated::new(&inner)?, plan, true, compute)?;
        Ok(out)
    }
}

impl FeedForward for MoeFeedForward {
    fn forward(&self, x: &Tensor, block_input: &Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let activated = Activated::new(x)?;
        let logits = match self.input {
            MoeInput::Branch => self.router.forward(&activated, context)?,
            MoeInput::BlockInput => self.router.forward(&Activated::new(block_input)?, context)?,
        };
        let routing = ops::route(&logits, &self.rule)?;
        let plan = ExpertPlan::new(&routing, self.experts.up.weight.count())?;
        let out = self.routed(&activated, &plan, context)?;
        let Some(shared) = &self.shared else { return Ok(out) };
        let mut extra = shared.expert.forward(x, block_input, context)?;
        if let Some(gate) = &shared.gate {
            if gate.out_features() != 1 {
                return Err(ModelError::Shape {
                    what: "gate of the shared expert".to_owned(),
                    expected: "1 row".to_owned(),
                    found: format!("{} rows", gate.out_features()),
                });
            }
            let gate = gate.forward(&activated, context)?;
            extra = ops::multiply_sigmoid(extra, &gate, context.compute)?;
        }
        ops::add(out, &extra, context.compute)
    }
}
