//! [`MoeFeedForward`]: a mixture of experts.

use crate::activated::Activated;
use crate::context::TransformContext;
use crate::experts::{ExpertLinear, ExpertPlan, Packing, Weighted, experts_many};
use crate::linear::Linear;
use crate::pointwise::Activation;
use crate::router::{RouterRule, route};
use crate::rows::Rows;
use crate::traits::FeedForward;
use crate::{ModelError, Result};

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
    pub gate: Option<Box<dyn ExpertLinear>>,
    /// `[E, F, D]`.
    pub up: Box<dyn ExpertLinear>,
    /// `[E, D, F]`.
    pub down: Box<dyn ExpertLinear>,
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

impl SharedExpert {
    /// An expert, and the gate on its output if it has one.
    ///
    /// # Errors
    /// [`ModelError::Shape`] for a gate of more than one row.
    pub fn new(expert: Box<dyn FeedForward>, gate: Option<Box<dyn Linear>>) -> Result<Self> {
        match gate.as_ref().map(|gate| gate.out_features()) {
            None | Some(1) => Ok(Self { expert, gate }),
            Some(rows) => Err(ModelError::Shape {
                what: "gate of the shared expert".to_owned(),
                expected: "1 row".to_owned(),
                found: format!("{rows} rows"),
            }),
        }
    }
}

/// A router, its experts, and an expert that every token takes (Shazeer et al., 2017).
///
/// Logits of the router are read back and the choice is made on the host. The outputs of a token's experts are added up
/// best choice first, whatever else is in the step.
pub struct MoeFeedForward {
    /// `[D]` to `[E]`.
    pub router: Box<dyn Linear>,
    /// From logits to experts and weights.
    pub rule: RouterRule,
    /// What the router reads.
    pub input: MoeInput,
    /// The routed experts.
    pub experts: Experts,
    /// Where the router weight multiplies.
    pub weighted: Weighted,
    /// The expert that every token takes.
    pub shared: Option<SharedExpert>,
}

impl MoeFeedForward {
    fn routed(&self, x: &Activated, plan: &ExpertPlan, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let packed = match self.weighted {
            Weighted::Inputs => {
                let packed = backend.pack_weighted(x.rows(), plan)?;
                self.run_experts(
                    &Activated::selected(&packed, plan.tokens())?,
                    plan,
                    Packing::Packed,
                    context,
                )?
            }
            Weighted::Outputs => self.run_experts(x, plan, Packing::Tokens, context)?,
        };
        backend.combine(&packed, plan, self.weighted)
    }

    /// Packed outputs `[packed rows, D]`.
    fn run_experts(
        &self,
        x: &Activated,
        plan: &ExpertPlan,
        packing: Packing,
        context: &TransformContext,
    ) -> Result<Rows> {
        let (experts, backend) = (&self.experts, &context.compute.backend);
        let inner = match &experts.gate {
            Some(gate) => {
                let [gate, up] = experts_many([&**gate, &*experts.up], x, plan, packing, context)?;
                backend.gated(gate, &up, experts.activation)?
            }
            None => backend.activate(experts.up.forward(x, plan, packing, context)?, experts.activation)?,
        };
        let inner = Activated::selected(&inner, plan.tokens())?;
        experts.down.forward(&inner, plan, Packing::Packed, context)
    }
}

impl FeedForward for MoeFeedForward {
    fn forward(&self, x: &Rows, block_input: &Rows, context: &mut TransformContext) -> Result<Rows> {
        let activated = Activated::new(x);
        let logits = match self.input {
            MoeInput::Branch => self.router.forward(&activated, context)?,
            MoeInput::BlockInput => self.router.forward(&Activated::new(block_input), context)?,
        };
        let backend = &context.compute.backend;
        let routing = route(&backend.read(&logits)?, logits.cols(), &self.rule)?;
        let plan = ExpertPlan::new(&routing, self.experts.up.shape().count)?;
        let out = self.routed(&activated, &plan, context)?;
        let Some(shared) = &self.shared else { return Ok(out) };
        let mut extra = shared.expert.forward(x, block_input, context)?;
        if let Some(gate) = &shared.gate {
            let gate = gate.forward(&activated, context)?;
            extra = backend.multiply_sigmoid(extra, &gate)?;
        }
        backend.add(out, &extra)
    }
}
