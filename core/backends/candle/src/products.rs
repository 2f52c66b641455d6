//! Products over the same rows.

use crate::backend::CandleBackend;
use crate::matrix::{CandleMatrices, CandleMatrix, RowForms};
use menagerie_model::{Arithmetic, LinearInput, ModelError, Param, Product, Result, Rows};

/// The matrices of a parameter; refuses inputs of another width, and weights that were loaded for another arithmetic.
pub(crate) fn matrices(weight: &Param, cols: usize, arithmetic: Arithmetic) -> Result<&CandleMatrices> {
    let held = weight.data::<CandleMatrices>()?;
    if weight.shape().cols != cols {
        return Err(ModelError::Shape {
            what: format!("tensor \"{}\"", weight.name()),
            expected: format!("{cols} columns, as the rows it multiplies"),
            found: format!("{} columns", weight.shape().cols),
        });
    }
    if arithmetic == Arithmetic::Exact && held.arithmetic == Arithmetic::Fast {
        return Err(ModelError::Unsupported(format!(
            "tensor \"{}\" was loaded for fast arithmetic and cannot be multiplied exactly; load the model with exact arithmetic",
            weight.name()
        )));
    }
    Ok(held)
}

/// The matrix `index` of a stack.
pub(crate) fn matrix<'a>(weight: &Param, held: &'a CandleMatrices, index: usize) -> Result<&'a CandleMatrix> {
    held.all.get(index).ok_or_else(|| ModelError::Shape {
        what: format!("tensor \"{}\"", weight.name()),
        expected: format!("more than {index} matrices"),
        found: format!("{} matrices", held.all.len()),
    })
}

impl CandleBackend {
    /// See [`menagerie_model::Backend::products`].
    pub(crate) fn multiply_all(
        &self,
        products: &[Product],
        x: &LinearInput,
        arithmetic: Arithmetic,
    ) -> Result<Vec<Rows>> {
        let (cols, prepared) = (x.rows().cols(), x.prepared::<RowForms>()?);
        let mut made = Vec::with_capacity(products.len());
        for product in products {
            let held = matrices(product.weight, cols, arithmetic)?;
            let matrix = matrix(product.weight, held, 0)?;
            let out = product.weight.shape().rows;
            let bias = product.bias.map(|bias| self.vector_of(bias, out, "bias")).transpose()?;
            made.push(self.map(x.rows(), out, |x| {
                let y = matrix.product(x, prepared)?;
                match bias {
                    Some(bias) => y.broadcast_add(bias),
                    None => Ok(y),
                }
            })?);
        }
        Ok(made)
    }
}
