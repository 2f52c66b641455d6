//! [`MoeFeedForward`]: a mixture of experts.

use crate::context::TransformContext;
use crate::element_wise::{ActivationForm, GateForm};
use crate::expert_plan::{ExpertPlan, Packing};
use crate::experts::{ExpertLinear, experts_many};
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::router::{RouterRule, Routing, route};
use crate::rows::Rows;
use crate::traits::{FeedForward, Norm, Raw};
use crate::{ModelError, Result};
use menagerie_formulas::{Activation, RouterApply, RouterInput};

/// The operation between an expert's up and down projections.
pub enum ExpertForm {
    /// A gate.
    Gated {
        /// `[E, F, D]`.
        gate: Box<dyn ExpertLinear>,
        /// How gate and up become one.
        gating: GateForm,
    },
    /// An activation alone.
    Plain(ActivationForm),
}

/// A router, and the operations on the rows that it reads.
pub struct Router {
    /// `[D]` to `[E]`.
    pub product: Box<dyn Linear>,
    /// What it reads.
    pub input: RouterInput,
    /// Norm on what it reads.
    pub norm: Option<Box<dyn Norm>>,
    /// Multiplies the rows that it reads (1 = none).
    pub input_scale: f32,
    /// From logits to experts and weights.
    pub rule: RouterRule,
}

impl Router {
    /// Experts and weights of every token; `x` is the input of the experts.
    fn route(&self, x: &LinearInput, raw: Raw, context: &TransformContext) -> Result<Routing> {
        let backend = &context.compute.backend;
        let read = match self.input {
            RouterInput::Branch => x.rows(),
            RouterInput::Stream => raw.stream,
            RouterInput::BlockInput => raw.block,
        };
        let mut changed = self.norm.as_ref().map(|norm| norm.forward(read, context)).transpose()?;
        if self.input_scale != 1.0 {
            let rows = match changed {
                Some(rows) => rows,
                None => backend.copy(read)?,
            };
            changed = Some(backend.scale(rows, self.input_scale)?);
        }
        let logits = match (&changed, self.input) {
            (None, RouterInput::Branch) => self.product.forward(x, context)?,
            (changed, _) => {
                self.product.forward(&LinearInput::new(changed.as_ref().unwrap_or(read)), context)?
            }
        };
        route(&backend.read(&logits)?, logits.cols(), &self.rule)
    }
}

/// The routed experts: stacks of matrices.
pub struct Experts {
    /// `[E, F, D]`.
    pub up: Box<dyn ExpertLinear>,
    /// `[E, D, F]`.
    pub down: Box<dyn ExpertLinear>,
    /// The operation between the two.
    pub form: ExpertForm,
    /// To the width of the experts and back (Nemotron 3); absent = the width of the model.
    pub latent: Option<LatentExperts>,
}

/// Products around all experts.
pub struct LatentExperts {
    /// `[D]` to the width of the experts.
    pub down: Box<dyn Linear>,
    /// The sum of the experts' outputs back to `[D]`.
    pub up: Box<dyn Linear>,
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
/// Logits of the router are read back and the choice is made on the host. The outputs of a token's experts are added
/// best choice first, whatever else is in the step.
pub struct MoeFeedForward {
    /// What chooses experts.
    pub router: Router,
    /// The routed experts.
    pub experts: Experts,
    /// Where the router weight is multiplied.
    pub apply: RouterApply,
    /// The expert that every token takes.
    pub shared: Option<SharedExpert>,
}

impl MoeFeedForward {
    fn routed(&self, x: &LinearInput, plan: &ExpertPlan, context: &TransformContext) -> Result<Rows> {
        let Some(latent) = &self.experts.latent else { return self.combined(x, plan, context) };
        let narrow = latent.down.forward(x, context)?;
        let out = self.combined(&LinearInput::new(&narrow), plan, context)?;
        latent.up.forward(&LinearInput::new(&out), context)
    }

    fn combined(&self, x: &LinearInput, plan: &ExpertPlan, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let packed = match self.apply {
            RouterApply::ToInput => {
                let packed = backend.pack_weighted(x.rows(), plan)?;
                self.run_experts(
                    &LinearInput::selected(&packed, plan.tokens())?,
                    plan,
                    Packing::Packed,
                    context,
                )?
            }
            RouterApply::ToOutput => self.run_experts(x, plan, Packing::Tokens, context)?,
        };
        backend.combine(&packed, plan, self.apply)
    }

    /// Packed outputs `[packed rows, D]`.
    fn run_experts(
        &self,
        x: &LinearInput,
        plan: &ExpertPlan,
        packing: Packing,
        context: &TransformContext,
    ) -> Result<Rows> {
        let experts = &self.experts;
        let inner = match &experts.form {
            ExpertForm::Gated { gate, gating } => {
                let [gate, up] = experts_many([&**gate, &*experts.up], x, plan, packing, context)?;
                gating.apply(gate, &up, context)?
            }
            ExpertForm::Plain(activation) => {
                activation.apply(experts.up.forward(x, plan, packing, context)?, context)?
            }
        };
        let inner = LinearInput::selected(&inner, plan.tokens())?;
        experts.down.forward(&inner, plan, Packing::Packed, context)
    }
}

impl FeedForward for MoeFeedForward {
    fn forward(&self, x: &Rows, raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        let activated = LinearInput::new(x);
        let backend = &context.compute.backend;
        let routing = self.router.route(&activated, raw, context)?;
        let plan = ExpertPlan::new(&routing, self.experts.up.shape().count)?;
        let out = self.routed(&activated, &plan, context)?;
        let Some(shared) = &self.shared else { return Ok(out) };
        let mut extra = shared.expert.forward(x, raw, context)?;
        if let Some(gate) = &shared.gate {
            let gate = gate.forward(&activated, context)?;
            extra = backend.gate_rows(extra, &gate, Activation::Sigmoid)?;
        }
        backend.add(out, &extra)
    }
}
