//! [`Magnitude`]: the trained row lengths of DoRA.

use crate::Result;
use crate::backend::Backend;
use crate::param::Param;

/// DoRA at one site: the trained length of each row, and what the row's own length is made of.
#[derive(Clone, Debug)]
pub struct Magnitude {
    /// Tensor of the lengths, for messages.
    pub name: String,
    /// Trained length of each row, `[out]`.
    pub lengths: Vec<f32>,
    /// By row: `|W|^2`, `scaling <W, B A>` and `scaling^2 |B A|^2`, so that `|W + w s B A|^2` is known for every weight
    /// w.
    pub squares: Vec<[f64; 3]>,
    /// The bias in the model's own product, which is not stretched, `[out]`.
    pub bias: Option<Vec<f32>>,
}

/// What DoRA does to rows of products under one weight of its adapter.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    /// `m / |W + w s B A|`, `[out]`: multiplies the low-rank product.
    pub(crate) factor: Param,
    /// That less one: multiplies the model's own product.
    pub(crate) more: Param,
    /// What takes the bias out of it again, `[out]`.
    pub(crate) bias: Option<Param>,
}

impl Magnitude {
    /// The stretch where its adapter has this weight.
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
