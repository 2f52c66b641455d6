//! Matrix products, several over the same rows in one parallel region.

use crate::activation::Activated;
use crate::compute::Compute;
use crate::context::TransformContext;
use crate::traits::Linear;
use crate::weight::Weight;
use crate::{ModelError, Result};
use candle_core::Tensor;
use menagerie_kernels::{Matrix, add_bias, matmul, matmul_many};

/// `y_i = W_i x + b_i` for plain weights, in one parallel region.
///
/// # Errors
/// [`ModelError::Shape`] names the weight whose columns do not fit `x`.
pub fn products<const N: usize>(
    weights: [(&Weight, Option<&[f32]>); N],
    x: &Activated,
    compute: &Compute,
) -> Result<[Tensor; N]> {
    let rows = x.rows();
    let mut outputs: Vec<Vec<f32>> = Vec::with_capacity(N);
    let mut matrices: Vec<Matrix> = Vec::with_capacity(N);
    for (weight, _) in &weights {
        if weight.cols() != x.cols() {
            return Err(ModelError::Shape {
                what: format!("tensor \"{}\"", weight.name()),
                expected: format!("{} columns, as the rows it multiplies", x.cols()),
                found: format!("{} columns", weight.cols()),
            });
        }
        matrices.push(weight.matrix(0)?);
        outputs.push(vec![0.0; rows * weight.rows()]);
    }
    x.with(|x| match (matrices.as_slice(), outputs.as_mut_slice()) {
        ([matrix], [output]) => Ok(matmul(&compute.cpu, compute.arithmetic, matrix, x, output)?),
        _ => {
            let mut slices: Vec<&mut [f32]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            Ok(matmul_many(&compute.cpu, compute.arithmetic, &matrices, x, &mut slices)?)
        }
    })?;
    let mut tensors = Vec::with_capacity(N);
    for (mut output, (weight, bias)) in outputs.into_iter().zip(weights) {
        if let Some(bias) = bias {
            add_bias(&compute.cpu, &mut output, bias)?;
        }
        tensors.push(super::tensor(output, rows, weight.rows())?);
    }
    exactly(tensors)
}

/// Several linears over the same rows: plain ones in one parallel region, wrapped ones one by one.
///
/// # Errors
/// What a linear returns.
pub fn linear_many<const N: usize>(
    linears: [&dyn Linear; N],
    x: &Activated,
    context: &TransformContext,
) -> Result<[Tensor; N]> {
    let plain: Vec<_> = linears.iter().filter_map(|linear| Some((linear.weight()?, linear.bias()))).collect();
    if let Ok(plain) = <[_; N]>::try_from(plain) {
        return products(plain, x, context.compute);
    }
    exactly(linears.iter().map(|linear| linear.forward(x, context)).collect::<Result<_>>()?)
}

fn exactly<const N: usize>(tensors: Vec<Tensor>) -> Result<[Tensor; N]> {
    <[Tensor; N]>::try_from(tensors)
        .map_err(|found| ModelError::Layout(format!("{} products where {N} were asked for", found.len())))
}
