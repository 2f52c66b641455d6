//! [`XLoraClassifier`]: hidden rows to weights of adapters.

use crate::context::TransformContext;
use crate::linear::{DenseLinear, Linear};
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::{ModelError, Result};
use menagerie_formulas::Activation;

/// The operation between the linears of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XLoraActivation {
    /// Nothing.
    Nothing,
    /// `max(x, 0)`.
    Relu,
}

/// Linears one after the other, over the rows after the final norm.
#[derive(Debug)]
pub struct XLoraClassifier {
    linears: Vec<DenseLinear>,
    between: XLoraActivation,
}

impl XLoraClassifier {
    /// The linears in order, from rows of `inputs` to rows of `outputs`.
    ///
    /// # Errors
    /// [`ModelError::Shape`] names the linear that does not fit the one before, or the model.
    pub fn new(
        linears: Vec<DenseLinear>,
        between: XLoraActivation,
        [inputs, outputs]: [usize; 2],
    ) -> Result<Self> {
        let mut width = inputs;
        for (index, linear) in linears.iter().enumerate() {
            expect(&format!("columns of linear {index}"), width, linear.in_features())?;
            width = linear.out_features();
        }
        expect("rows of the last linear", outputs, width)?;
        Ok(Self { linears, between })
    }

    /// Normed rows `[T, D]` to outputs `[T, outputs]`.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn forward(&self, normed: Rows, context: &TransformContext) -> Result<Rows> {
        let mut rows = normed;
        for (index, linear) in self.linears.iter().enumerate() {
            if index > 0 && self.between == XLoraActivation::Relu {
                rows = context.compute.backend.activate(rows, Activation::Relu)?;
            }
            rows = linear.forward(&LinearInput::new(&rows), context)?;
        }
        Ok(rows)
    }
}

fn expect(what: &str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(ModelError::Shape {
        what: format!("X-LoRA classifier: {what}"),
        expected: expected.to_string(),
        found: found.to_string(),
    })
}
