//! [`Magnitude`]: the trained row lengths of DoRA.

use crate::Result;
use crate::backend::Backend;
use crate::param::Param;

/// DoRA at one site: the trained length of each row, and the terms of the row's own length.
#[derive(Clone, Debug)]
pub struct Magnitude {
    /// Tensor of the lengths, for messages.
    pub name: String,
    /// Trained length of each row, `[out]`.
    pub lengths: Vec<f32>,
    /// By row: `|W|^2`, `scaling <W, B A>` and `scaling^2 |B A|^2`, from which `|W + w s B A|^2` follows for every
    /// weight w.
    pub squares: Vec<[f64; 3]>,
    /// The bias in the model's own product, which is not stretched, `[out]`.
    pub bias: Option<Vec<f32>>,
}

/// The factors of DoRA for rows of products under one weight of its adapter.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    /// `m / |W + w s B A|`, `[out]`: multiplies the low-rank product.
    pub(crate) factor: Param,
    /// The previous factor minus one: multiplies the model's own product.
    pub(crate) more: Param,
    /// The term that removes the bias again, `[out]`.
    pub(crate) bias: Option<Param>,
}

impl Magnitude {
    /// The stretch for this weight of its adapter.
    pub(crate) fn stretch(&self, weight: f32, backend: &dyn Backend) -> Result<Stretch> {
        let weight = f64::from(weight);
        let factors: Vec<f64> = self
            .lengths
            .iter()
            .zip(&self.squares)
            .map(|(length, [own, mixed, low])| {
                let square = own + 2.0 * weight * mixed + weight * weight * low;
                f64::from(*length) / square.max(0.0).sqrt()
            })
            .collect();
        let vector = |values: Vec<f32>| backend.vector(&self.name, values);
        let bias = self.bias.as_ref().map(|bias| {
            let back =
                bias.iter().zip(&factors).map(|(bias, factor)| (f64::from(*bias) * (1.0 - factor)) as f32);
            vector(back.collect())
        });
        Ok(Stretch {
            factor: vector(factors.iter().map(|factor| *factor as f32).collect())?,
            more: vector(factors.iter().map(|factor| (factor - 1.0) as f32).collect())?,
            bias: bias.transpose()?,
        })
    }
}
