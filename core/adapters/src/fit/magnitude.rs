//! The magnitudes of DoRA, with what they are compared to, computed once from the weight of the model.

use super::AdapterFit;
use crate::adapter_tensor::AdapterTensor;
use crate::error::AdapterError;
use crate::module::{AdapterModule, LowRankPair};
use menagerie_model::{
    Arithmetic, LinearInput, Magnitude, ModelError, Product, SiteForm, Weight, WeightShape,
};
use menagerie_registry::TensorPart;

/// Rows of a weight that are dequantized at once.
const ROWS: usize = 512;

impl AdapterFit<'_> {
    /// The magnitudes of a site's rows, and the terms of the actual lengths of the rows. `pair` has the rows of the site;
    /// `rows` are their indices in the module.
    pub(super) fn magnitude(
        &self,
        module: &AdapterModule,
        site: usize,
        (lengths, rows): (&AdapterTensor, &[usize]),
        pair: &LowRankPair,
    ) -> Result<Magnitude, AdapterError> {
        let lengths = match lengths.shape.rows {
            1 => self.values(module, &lengths.columns(rows))?,
            // `[out, 1]`, as in early versions of PEFT.
            _ => self.values(module, &lengths.rows(rows))?,
        };
        let weight = self.stored(module, site)?;
        let squares = self.squares(&weight, module, pair).map_err(self.failed(module))?;
        let bias = self.base_bias(module, site)?;
        Ok(Magnitude { name: format!("{} (DoRA)", module.name), lengths, squares, bias })
    }

    /// The stored weight of a site.
    fn stored(&self, module: &AdapterModule, site: usize) -> Result<Weight, AdapterError> {
        let place = &self.target.sites[site].place;
        let weights = self.target.weights;
        let index = weights.find(&place.role, place.layer, TensorPart::Main);
        let scaled = weights.find(&place.role, place.layer, TensorPart::Scale).is_some();
        match index.filter(|_| place.form == SiteForm::Stored && !scaled) {
            Some(index) => {
                let weight = weights.weight(index).and_then(|weight| weight.row_range(place.rows.clone()));
                weight.map_err(self.failed(module))
            }
            None => Err(self.error(
                module,
                "DoRA needs the rows of the model's weight, which are stored in another form here; merge the adapter with \
                 PEFT",
            )),
        }
    }

    /// For each row `|W|^2`, `s <W, B A>` and `s^2 |B A|^2`. The low-rank product is never computed completely: `<W, B
    /// A>` of a row is `b (A W^T)`, and `|B A|^2` is `b (A A^T) b^T`.
    fn squares(
        &self,
        weight: &Weight,
        module: &AdapterModule,
        pair: &LowRankPair,
    ) -> Result<Vec<[f64; 3]>, ModelError> {
        let backend = &*self.target.compute.backend;
        let (rank, cols) = (pair.a.shape.rows, pair.a.shape.cols);
        let a = backend.values(&pair.a.weight()?)?;
        let b = backend.values(&pair.b.weight()?)?;
        let WeightShape { rows, cols: inputs, .. } = weight.shape();
        if inputs != cols {
            return Err(ModelError::Shape {
                what: format!("matrix A of module \"{}\"", module.name),
                expected: format!("[rank, {inputs}]"),
                found: format!("[{rank}, {cols}]"),
            });
        }
        let gram = gram(&a, cols);
        let narrow = backend.upload(a, cols)?;
        let activated = LinearInput::new(&narrow);
        let scaling = f64::from(pair.scaling);
        let mut squares = Vec::with_capacity(rows);
        for first in (0..rows).step_by(ROWS) {
            let part = weight.row_range(first..rows.min(first + ROWS))?;
            let count = part.shape().rows;
            let values = backend.values(&part)?;
            let param = backend.matrix(&part, Arithmetic::Exact)?;
            let product = Product { weight: &param, bias: None };
            // `[rank, rows of W]`
            let made = backend.products(&[product], &activated, Arithmetic::Exact)?;
            let Some(mixed) = made.first() else { continue };
            let mixed = backend.read(mixed)?;
            for (row, own) in values.chunks_exact(cols.max(1)).enumerate() {
                let b = &b[(first + row) * rank..][..rank];
                let own: f64 = own.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
                let with: f64 = (0..rank).map(|k| f64::from(b[k]) * f64::from(mixed[k * count + row])).sum();
                let low: f64 = (0..rank)
                    .map(|k| {
                        f64::from(b[k]) * (0..rank).map(|l| gram[k * rank + l] * f64::from(b[l])).sum::<f64>()
                    })
                    .sum();
                squares.push([own, scaling * with, scaling * scaling * low]);
            }
        }
        Ok(squares)
    }
}

/// `A A^T`, `[rank, rank]`.
fn gram(a: &[f32], cols: usize) -> Vec<f64> {
    let rows: Vec<&[f32]> = a.chunks_exact(cols.max(1)).collect();
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    rows.iter().flat_map(|x| rows.iter().map(move |y| dot(x, y))).collect()
}
