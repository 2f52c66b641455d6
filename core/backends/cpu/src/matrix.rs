//! [`CpuMatrix`]: a weight as the kernels read it, and vectors.

use crate::names::{block_type, failed};
use menagerie_kernels::{BlockType, Matrix};
use menagerie_model::{ModelError, Param, Weight, WeightShape};
use std::sync::Arc;

/// A stored matrix or a stack of them, over the bytes of the file.
#[derive(Debug)]
pub(crate) struct CpuMatrix {
    weight: Weight,
    block: BlockType,
}

impl CpuMatrix {
    /// Takes a weight in.
    ///
    /// # Errors
    /// A type that the kernels do not support.
    pub(crate) fn param(weight: &Weight) -> Result<Param, ModelError> {
        let block = block_type(weight.name(), weight.block())?;
        let matrix = Self { weight: weight.clone(), block };
        Ok(Param::new(weight.name(), weight.shape(), Arc::new(matrix)).with_bytes(weight.stored_bytes()))
    }

    /// The matrix `index` of the stack.
    ///
    /// # Errors
    /// Past the last one.
    pub(crate) fn get(&self, index: usize) -> Result<Matrix<'_>, ModelError> {
        let WeightShape { rows, cols, .. } = self.weight.shape();
        Matrix::new(self.block, rows, cols, self.weight.matrix(index)?).map_err(failed)
    }

    /// Type of the blocks.
    pub(crate) fn block(&self) -> BlockType {
        self.block
    }
}

/// The matrix `index` of a parameter.
///
/// # Errors
/// A parameter of another backend, or a vector.
pub(crate) fn matrix(param: &Param, index: usize) -> Result<Matrix<'_>, ModelError> {
    param.data::<CpuMatrix>()?.get(index)
}

/// Takes a vector in.
pub(crate) fn vector(name: &str, values: Vec<f32>) -> Param {
    let shape = WeightShape { count: 1, rows: 1, cols: values.len() };
    Param::new(name, shape, Arc::new(values))
}

/// The values of a vector parameter.
///
/// # Errors
/// A parameter of another backend, or a matrix.
pub(crate) fn values(param: &Param) -> Result<&[f32], ModelError> {
    param.data::<Vec<f32>>().map(Vec::as_slice)
}
