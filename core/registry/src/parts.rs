//! [`Parts`]: what a component is built from: tensors by role, states, the backend.

use menagerie_model::components::{RopeDeclarations, RopeFrequencies};
use menagerie_model::{
    Backend, ElementWise, ExpertLinear, Linear, Norm, Operation, Param, SequenceMixer, SiteForm,
    SlotDeclarations, StateDeclarations, Weight,
};
use menagerie_spec::kind::Component as Config;
use std::sync::Arc;

/// Which tensor of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The weight, or the tensor a role with a suffix names.
    Main,
    /// The bias.
    Bias,
    /// The number that multiplies the products with the weight, before the bias; of a stack, one for each matrix.
    Scale,
}

/// What a factory takes a component's parts from, in one place of a model.
///
/// Roles, dims and bias rules are those of the kind's table: a role is claimed and checked by its row there. Sizes that
/// the config leaves open (`F`) are bound by the first tensor that has them and must agree in the others. Methods that
/// give `None` have noted a fault; a factory takes all its parts before it gives up, so that a user sees all faults.
pub trait Parts {
    /// The block, or none for the whole model.
    fn layer(&self) -> Option<usize>;

    /// Blocks of the whole model.
    fn layers(&self) -> usize;

    /// D: width of the residual stream, in elements.
    fn width(&self) -> usize;

    /// Where the model will compute.
    fn backend(&self) -> &dyn Backend;

    /// Whether the file has a role's tensor.
    fn has(&self, role: &str, part: Part) -> bool;

    /// Elements of a role's tensor by dimension, the contiguous one first, without claiming it.
    fn dims(&self, role: &str) -> Option<&[u64]>;

    /// A size of the config, or one that a tensor has bound.
    fn size(&self, symbol: &str) -> Option<usize>;

    /// The linear of a role, with the bias its rule asks for.
    fn linear(&mut self, role: &str) -> Option<Box<dyn Linear>>;

    /// The linears that a fused role holds one after the other, of these many rows each. Where the file keeps their
    /// biases apart, `bias_roles` names the roles that have them.
    fn split_linear(
        &mut self,
        role: &str,
        rows: &[usize],
        bias_roles: &[&str],
    ) -> Option<Vec<Box<dyn Linear>>>;

    /// The stack of linears of a role.
    fn experts(&mut self, role: &str) -> Option<Box<dyn ExpertLinear>>;

    /// The two stacks of equal size that a fused role holds: in each expert the first one's rows, then the second one's.
    fn split_experts(&mut self, role: &str) -> Option<[Box<dyn ExpertLinear>; 2]>;

    /// The stored weight of a role, claimed and checked, for factories that multiply with parts of it or with a changed
    /// form: [`Parts::experts_of`] makes the products. Adapters of the role know by
    /// the form what to do there.
    fn weight(&mut self, role: &str) -> Option<Weight>;

    /// A stack of linears without biases over a weight made of that of a role.
    fn experts_of(&mut self, role: &str, weight: &Weight, form: SiteForm) -> Option<Box<dyn ExpertLinear>>;

    /// The values of a role's tensor, in the order of the file.
    fn values(&mut self, role: &str, part: Part) -> Option<Vec<f32>>;

    /// The values of a role's tensor that has a row of `dim` for each of `heads` heads, as `[heads, dim]` or as one row,
    /// where its kind's table has one row for all of them.
    fn row_values(&mut self, role: &str, part: Part, dim_and_heads: [usize; 2]) -> Option<Vec<f32>>;

    /// A matrix of a role that is not multiplied with (a convolution's taps), taken in as it is.
    fn matrix(&mut self, role: &str) -> Option<Param>;

    /// Takes values in as a vector of the backend.
    fn vector(&mut self, role: &str, values: Vec<f32>) -> Option<Param>;

    /// A norm over rows of `width` elements, its tensors at `role`.
    fn norm(&mut self, role: &str, config: &Config, width: usize) -> Option<Box<dyn Norm>>;

    /// A mixer inside this one, in the same place.
    fn mixer(&mut self, config: &Config) -> Option<Box<dyn SequenceMixer>>;

    /// The activation of a registered component.
    fn activation(&mut self, config: &Config) -> Option<Arc<dyn ElementWise>>;

    /// What gives the frequencies of a rope: a registered component.
    fn rope_frequencies(&mut self, config: &Config) -> Option<Box<dyn RopeFrequencies>>;

    /// Where states are declared; `name("k")` names one after the place (`blk.3.k`).
    fn states(&mut self) -> &mut StateDeclarations;

    /// Where rows that layers hand to later layers of a step are declared, by a name that is the model's.
    fn slots(&mut self) -> &mut SlotDeclarations;

    /// A name for a state or an error, after the place: `blk.3.k`.
    fn name(&self, suffix: &str) -> String;

    /// Where ropes are declared: equal ones share their tables in a step.
    fn ropes(&mut self) -> &mut RopeDeclarations;

    /// Notes a fault.
    fn fault(&mut self, text: &str);

    /// Notes a fault if the backend has no form of an operation.
    fn needs(&mut self, operation: Operation) -> Option<()> {
        match self.backend().supports(operation) {
            Ok(()) => Some(()),
            Err(error) => {
                self.fault(&error.to_string());
                None
            }
        }
    }
}

/// The value, or the fault noted.
pub fn noted<T, E: std::fmt::Display>(parts: &mut dyn Parts, value: Result<T, E>) -> Option<T> {
    match value {
        Ok(value) => Some(value),
        Err(error) => {
            parts.fault(&error.to_string());
            None
        }
    }
}

/// What is wanted only where the config has it: the outer `None` is a fault already noted.
#[allow(clippy::option_option)]
pub fn where_given<T>(wanted: Option<Option<T>>) -> Option<Option<T>> {
    match wanted {
        None => Some(None),
        Some(made) => made.map(Some),
    }
}
