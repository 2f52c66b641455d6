//! [`Classifier`]: pooled vectors to scores (rerankers).

use crate::Result;
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::traits::Norm;
use menagerie_formulas::{Activation, ClassifierActivation, ClassifierScores};

/// `output(norm(activation(dense(x))))`, with each part that the model has.
pub struct Classifier {
    /// `[D]` to `[D]`, followed by the activation and the norm.
    pub dense: Option<Box<dyn Linear>>,
    /// After `dense`.
    pub activation: ClassifierActivation,
    /// After the activation.
    pub norm: Option<Box<dyn Norm>>,
    /// `[D]` to one score per label.
    pub output: Option<Box<dyn Linear>>,
    /// What is made of the scores.
    pub scores: ClassifierScores,
}

impl Classifier {
    /// Pooled rows `[N, D]` to scores `[N, labels]`; `origin` names the row of the step that each came from.
    ///
    /// # Errors
    /// A weight of another width.
    pub fn forward(&self, pooled: Rows, origin: &[u32], context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let mut rows = pooled;
        if let Some(dense) = &self.dense {
            rows = dense.forward(&LinearInput::selected(&rows, origin)?, context)?;
            rows = match self.activation {
                ClassifierActivation::Tanh => backend.softcap(rows, 1.0)?,
                ClassifierActivation::GeluErf => backend.activate(rows, Activation::GeluErf)?,
            };
            if let Some(norm) = &self.norm {
                rows = norm.forward(&rows, context)?;
            }
        }
        if let Some(output) = &self.output {
            rows = output.forward(&LinearInput::selected(&rows, origin)?, context)?;
        }
        match self.scores {
            ClassifierScores::AsTheyAre => Ok(rows),
            ClassifierScores::Softmax => softmax(&rows, context),
        }
    }
}

/// Softmax over each row, summed in f64: there are only a few rows, computed on the host.
fn softmax(rows: &Rows, context: &TransformContext) -> Result<Rows> {
    let backend = &context.compute.backend;
    let mut values = backend.read(rows)?.into_owned();
    for row in values.chunks_exact_mut(rows.cols().max(1)) {
        let largest = row.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = row.iter().map(|value| libm::exp(f64::from(value - largest))).sum();
        row.iter_mut().for_each(|value| *value = (libm::exp(f64::from(*value - largest)) / sum) as f32);
    }
    backend.upload(values, rows.cols())
}
