//! [`ElementWise`]: an activation that is not a formula of a backend; [`ActivationForm`] and [`GateForm`] cover both.

use crate::Result;
use crate::context::TransformContext;
use crate::rows::Rows;
use crate::{Backend, ModelError};
use menagerie_formulas::{Activation, Gating};
use std::sync::Arc;

/// An activation of a registered component: element by element, without state, callable from any thread.
pub trait ElementWise: Send + Sync {
    /// Writes the activation of every element of `x` `[T, width]` into `out` `[T, width]`.
    ///
    /// # Errors
    /// What the component reports.
    fn apply(&self, x: &[f32], width: usize, out: &mut [f32]) -> Result<()>;
}

/// An activation: a formula that backends compute, or a component's.
#[derive(Clone)]
pub enum ActivationForm {
    /// Computed on the backend.
    Formula(Activation),
    /// Computed on the CPU: rows are read back and uploaded again.
    Component(Arc<dyn ElementWise>),
}

/// How a gate and an up projection are combined: by a formula that backends compute, or by a component's activation of
/// the gate.
#[derive(Clone)]
pub enum GateForm {
    /// Computed on the backend.
    Formula(Gating),
    /// `activation(gate) * up`, computed on the CPU.
    Component(Arc<dyn ElementWise>),
}

impl From<Activation> for ActivationForm {
    fn from(formula: Activation) -> Self {
        Self::Formula(formula)
    }
}

impl From<Gating> for GateForm {
    fn from(formula: Gating) -> Self {
        Self::Formula(formula)
    }
}

impl ActivationForm {
    /// The activation of every element of `x` `[T, D]`.
    ///
    /// # Errors
    /// Errors of the backend or the component.
    pub fn apply(&self, x: Rows, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        match self {
            Self::Formula(activation) => backend.activate(x, *activation),
            Self::Component(component) => {
                let width = x.cols();
                backend.upload(activated(&**component, &x, &**backend)?, width)
            }
        }
    }
}

impl GateForm {
    /// The activation as the gate of an up projection, `activation(gate) * up`.
    pub fn plain(activation: ActivationForm) -> Self {
        match activation {
            ActivationForm::Formula(activation) => Self::Formula(Gating::Plain(activation)),
            ActivationForm::Component(component) => Self::Component(component),
        }
    }

    /// The gated rows `[T, F]` of `gate` and `up`, `[T, F]` each.
    ///
    /// # Errors
    /// Errors of the backend or the component.
    pub fn apply(&self, gate: Rows, up: &Rows, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        match self {
            Self::Formula(gating) => backend.gated(gate, up, *gating),
            Self::Component(component) => {
                let width = gate.cols();
                let mut gated = activated(&**component, &gate, &**backend)?;
                let up = backend.read(up)?;
                if gated.len() != up.len() {
                    let [expected, found] = [gated.len(), up.len()].map(|len| format!("{len} elements"));
                    return Err(ModelError::Shape { what: "up projection".to_owned(), expected, found });
                }
                gated.iter_mut().zip(&*up).for_each(|(gate, up)| *gate *= up);
                backend.upload(gated, width)
            }
        }
    }
}

fn activated(component: &dyn ElementWise, x: &Rows, backend: &dyn Backend) -> Result<Vec<f32>> {
    let values = backend.read(x)?;
    let mut out = vec![0.0; values.len()];
    component.apply(&values, x.cols(), &mut out)?;
    Ok(out)
}
