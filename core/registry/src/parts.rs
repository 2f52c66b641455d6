//! [`ComponentParts`]: the parts from which a factory builds a component: tensors by role, states, the backend.

use menagerie_model::components::{RopeDeclarations, RopeFrequencies};
use menagerie_model::{
    Backend, ElementWise, ExpertLinear, Linear, Norm, Operation, Param, SequenceMixer, SiteForm,
    SlotDeclarations, StateDeclarations, Weight,
};
use menagerie_spec::kind::Component as Config;
use std::sync::Arc;

/// A tensor of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorPart {
    /// The weight; or the tensor itself, if the role already has a suffix.
    Main,
    /// The bias.
    Bias,
    /// The factor of the products with the weight, applied before the bias; a stack has one for each matrix.
    Scale,
}

/// Proof that a fault was reported: [`ComponentParts::fault`] returns it, and a factory that fails returns it as its error. So a
/// factory cannot fail without a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedFault(());

impl ReportedFault {
    /// For implementations of [`ComponentParts::fault`], after they have stored the text.
    pub fn stored() -> Self {
        Self(())
    }
}

/// The result of a factory. The fault of an error is already reported.
pub type BuildResult<T> = Result<T, ReportedFault>;

/// The source of a component's parts at one place of a model; each factory receives one.
///
/// Roles, dims and bias rules come from the kind's table: its row for a role says how the tensor is claimed and checked. Sizes that
/// the config leaves open (`F`) are bound by the first tensor that has them, and the others must agree.
///
/// # Errors
/// A method that fails has reported the fault. A factory takes all its parts before it uses `?`, so that a user sees all
/// faults at once.
pub trait ComponentParts {
    /// The block; `None` for parts of the whole model.
    fn layer(&self) -> Option<usize>;

    /// Number of blocks of the whole model.
    fn layers(&self) -> usize;

    /// D: width of the residual stream, in elements.
    fn width(&self) -> usize;

    /// The backend that the model will compute on.
    fn backend(&self) -> &dyn Backend;

    /// Whether the file has this tensor.
    fn has(&self, role: &str, part: TensorPart) -> bool;

    /// Dimensions of a role's tensor, the contiguous one first; does not claim the tensor.
    fn dims(&self, role: &str) -> Option<&[u64]>;

    /// A size from the config, or one that a tensor has bound.
    fn size(&self, symbol: &str) -> Option<usize>;

    /// The linear of a role, with a bias if its rule requires one.
    fn linear(&mut self, role: &str) -> BuildResult<Box<dyn Linear>>;

    /// The linears of a fused role, with these numbers of rows, in order. If the file stores their biases separately,
    /// `bias_roles` names the roles of the biases.
    fn split_linear(
        &mut self,
        role: &str,
        rows: &[usize],
        bias_roles: &[&str],
    ) -> BuildResult<Vec<Box<dyn Linear>>>;

    /// The stack of linears of a role.
    fn experts(&mut self, role: &str) -> BuildResult<Box<dyn ExpertLinear>>;

    /// The two stacks of equal size in a fused role; each expert has the rows of the first stack, then those of the second.
    fn split_experts(&mut self, role: &str) -> BuildResult<[Box<dyn ExpertLinear>; 2]>;

    /// The stored weight of a role, claimed and checked, for factories that multiply with parts of it or with a changed
    /// form of it. [`ComponentParts::experts_of`] builds the products; its form tells adapters how the weight was changed.
    fn weight(&mut self, role: &str) -> BuildResult<Weight>;

    /// A stack of linears without biases over a weight that was made from the weight of a role.
    fn experts_of(
        &mut self,
        role: &str,
        weight: &Weight,
        form: SiteForm,
    ) -> BuildResult<Box<dyn ExpertLinear>>;

    /// The values of a role's tensor, in the order of the file.
    fn values(&mut self, role: &str, part: TensorPart) -> BuildResult<Vec<f32>>;

    /// The values of a tensor with `dim` elements for each of `heads` heads, stored as `[heads, dim]` or as one row, if the
    /// kind's table describes one row for all heads.
    fn row_values(
        &mut self,
        role: &str,
        part: TensorPart,
        dim_and_heads: [usize; 2],
    ) -> BuildResult<Vec<f32>>;

    /// The matrix of a role that is not a linear (the taps of a convolution), as it is stored.
    fn matrix(&mut self, role: &str) -> BuildResult<Param>;

    /// Values as a vector of the backend.
    fn vector(&mut self, role: &str, values: Vec<f32>) -> BuildResult<Param>;

    /// A norm over rows of `width` elements, with its tensors at `role`.
    fn norm(&mut self, role: &str, config: &Config, width: usize) -> BuildResult<Box<dyn Norm>>;

    /// A mixer inside this one, at the same place.
    fn mixer(&mut self, config: &Config) -> BuildResult<Box<dyn SequenceMixer>>;

    /// An activation that is a registered component.
    fn activation(&mut self, config: &Config) -> BuildResult<Arc<dyn ElementWise>>;

    /// The frequencies of a rope that are a registered component.
    fn rope_frequencies(&mut self, config: &Config) -> BuildResult<Box<dyn RopeFrequencies>>;

    /// The declarations of states; [`ComponentParts::name`] builds their names.
    fn states(&mut self) -> &mut StateDeclarations;

    /// The declarations of slots: rows that a layer passes to later layers of the same step, by a name of the model.
    fn slots(&mut self) -> &mut SlotDeclarations;

    /// The name of a state: `name("k")` is `blk.3.k` in block 3.
    fn name(&self, suffix: &str) -> String;

    /// The declarations of ropes; equal ropes share their tables in a step.
    fn ropes(&mut self) -> &mut RopeDeclarations;

    /// Reports a fault: `return Err(parts.fault("..."))`.
    fn fault(&mut self, text: &str) -> ReportedFault;

    /// Reports a fault if the backend does not support an operation.
    ///
    /// # Errors
    /// The operation is not supported.
    fn needs(&mut self, operation: Operation) -> BuildResult<()> {
        self.backend().supports(operation).map_err(|error| self.fault(&error.to_string()))
    }
}

/// The value; its error is reported as a fault.
///
/// # Errors
/// The value is an error.
pub fn or_fault<T, E: std::fmt::Display>(
    parts: &mut dyn ComponentParts,
    value: Result<T, E>,
) -> BuildResult<T> {
    value.map_err(|error| parts.fault(&error.to_string()))
}
