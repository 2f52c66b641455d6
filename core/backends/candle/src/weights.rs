//! Loading weights: the form of each block type on the device.

use crate::backend::CandleBackend;
use crate::matrix::{CandleMatrices, CandleMatrix};
use crate::reencode;
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use candle_core::{DType, Tensor};
use gguf_file::GgmlType;
use half::{bf16, f16};
use menagerie_kernels::{BlockType, dequantize};
use menagerie_model::{Arithmetic, ModelError, Param, Result, Weight, WeightShape};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many matrices have another form than the file's, by type, the reason, and the form.
pub(crate) type Changed = BTreeMap<(GgmlType, &'static str, &'static str), usize>;

/// One matrix of a weight: its bytes and sizes, with the name for messages.
#[derive(Clone, Copy)]
struct StoredMatrix<'a> {
    name: &'a str,
    block: GgmlType,
    bytes: &'a [u8],
    rows: usize,
    cols: usize,
}

impl StoredMatrix<'_> {
    fn values(&self) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.rows * self.cols];
        let block = block_type(self.name, self.block)?;
        dequantize(block, self.bytes, &mut values).map_err(|error| self.unreadable(error.to_string()))?;
        Ok(values)
    }

    fn unreadable(&self, why: String) -> ModelError {
        ModelError::Weights(format!("tensor \"{}\": {why}", self.name))
    }
}

/// The kernels' type of a block; `name` is the tensor's.
fn block_type(name: &str, block: GgmlType) -> Result<BlockType> {
    BlockType::from_ggml_id(block.id()).ok_or_else(|| {
        ModelError::Unsupported(format!(
            "tensor \"{name}\": candle does not support type {block}, and it cannot be dequantized here"
        ))
    })
}

/// candle's name for a block type that it multiplies with on every device.
fn blocks_of_candle(block: GgmlType) -> Option<GgmlDType> {
    Some(match block {
        GgmlType::Q4_0 => GgmlDType::Q4_0,
        GgmlType::Q4_1 => GgmlDType::Q4_1,
        GgmlType::Q5_0 => GgmlDType::Q5_0,
        GgmlType::Q5_1 => GgmlDType::Q5_1,
        GgmlType::Q8_0 => GgmlDType::Q8_0,
        GgmlType::Q2_K => GgmlDType::Q2K,
        GgmlType::Q3_K => GgmlDType::Q3K,
        GgmlType::Q4_K => GgmlDType::Q4K,
        GgmlType::Q5_K => GgmlDType::Q5K,
        GgmlType::Q6_K => GgmlDType::Q6K,
        _ => return None,
    })
}

/// Bytes that `elements` elements of a type take on the device; see [`CandleBackend::take_in`] for the forms.
pub(crate) fn bytes(block: GgmlType, elements: u64, arithmetic: Arithmetic) -> u64 {
    let form = match arithmetic {
        Arithmetic::Exact => GgmlType::F32,
        Arithmetic::Fast if blocks_of_candle(block).is_some() => block,
        Arithmetic::Fast if reencode::has_scale_of_q8_0(block) => GgmlType::Q8_0,
        Arithmetic::Fast if block == GgmlType::F32 => block,
        Arithmetic::Fast => GgmlType::F16,
    };
    form.row_bytes(elements).unwrap_or(0)
}

/// Whether these are rows of an odd number of blocks, of a type whose products on candle's CPU assert in debug builds
/// that the number is even.
fn has_odd_rows(block: GgmlType, cols: usize) -> bool {
    let paired = [GgmlType::Q4_1, GgmlType::Q5_0, GgmlType::Q5_1].contains(&block);
    paired && block.block_len().is_some_and(|len| !(cols / len).is_multiple_of(2))
}

impl CandleBackend {
    /// See [`menagerie_model::Backend::matrix`].
    pub(crate) fn take_in(&self, weight: &Weight, arithmetic: Arithmetic) -> Result<Param> {
        let WeightShape { count, rows, cols } = weight.shape();
        let mut all = Vec::with_capacity(count);
        for index in 0..count {
            let bytes = weight.matrix(index)?;
            let stored = StoredMatrix { name: weight.name(), block: weight.block(), bytes, rows, cols };
            all.push(match arithmetic {
                Arithmetic::Exact => self.dense(stored.values()?, rows, cols)?,
                Arithmetic::Fast => self.take_fast(&stored)?,
            });
        }
        let matrices = CandleMatrices { all, arithmetic };
        Ok(Param::new(weight.name(), weight.shape(), Arc::new(matrices)).with_bytes(weight.stored_bytes()))
    }

    /// See [`menagerie_model::Backend::values`].
    pub(crate) fn dequantized(&self, weight: &Weight) -> Result<Vec<f32>> {
        let WeightShape { count, rows, cols } = weight.shape();
        let mut values = Vec::with_capacity(count * rows * cols);
        for index in 0..count {
            let bytes = weight.matrix(index)?;
            let stored = StoredMatrix { name: weight.name(), block: weight.block(), bytes, rows, cols };
            values.extend(stored.values()?);
        }
        Ok(values)
    }

    fn take_fast(&self, stored: &StoredMatrix) -> Result<CandleMatrix> {
        let &StoredMatrix { block, bytes, rows, cols, .. } = stored;
        if let Some(kind) = blocks_of_candle(block) {
            if self.device.is_cpu() && has_odd_rows(block, cols) {
                return self.dequantize(stored, stored.values()?, "rows with an odd number of its blocks");
            }
            return self.blocks(stored, bytes, kind);
        }
        let pairs = bytes.as_chunks::<2>().0.iter();
        match block {
            GgmlType::F32 => self.dense(stored.values()?, rows, cols),
            GgmlType::F16 => {
                let halves: Vec<f16> = pairs.map(|bytes| f16::from_le_bytes(*bytes)).collect();
                self.held(Tensor::from_vec(halves, (rows, cols), &self.device))
            }
            GgmlType::BF16 => {
                let halves: Vec<bf16> = pairs.map(|bytes| bf16::from_le_bytes(*bytes)).collect();
                self.held(Tensor::from_vec(halves, (rows, cols), &self.device))
            }
            _ => self.take_without_form(stored),
        }
    }

    /// A type that candle does not multiply with: as Q8_0 if no value changes, otherwise dequantized.
    fn take_without_form(&self, stored: &StoredMatrix) -> Result<CandleMatrix> {
        let &StoredMatrix { block, bytes, .. } = stored;
        let values = stored.values()?;
        if reencode::has_scale_of_q8_0(block)
            && let Some(bytes) = reencode::to_q8_0(block, bytes, &values)
        {
            self.note(stored, "the type", "stored as Q8_0 with the same values");
            return self.blocks(stored, &bytes, reencode::Q8_0);
        }
        self.dequantize(stored, values, "the type")
    }

    /// As f16, or as f32 if the values exceed f16.
    fn dequantize(
        &self,
        stored: &StoredMatrix,
        values: Vec<f32>,
        lack: &'static str,
    ) -> Result<CandleMatrix> {
        let &StoredMatrix { rows, cols, .. } = stored;
        if values.iter().any(|value| value.abs() > f16::MAX.to_f32()) {
            self.note(stored, lack, "dequantized to f32");
            return self.dense(values, rows, cols);
        }
        self.note(stored, lack, "dequantized to f16");
        let halves: Vec<f16> = values.into_iter().map(f16::from_f32).collect();
        self.held(Tensor::from_vec(halves, (rows, cols), &self.device))
    }

    fn note(&self, stored: &StoredMatrix, lack: &'static str, form: &'static str) {
        tracing::info!(device = %self.name, tensor = stored.name, block = %stored.block, "{form}");
        *self.changed().entry((stored.block, lack, form)).or_insert(0) += 1;
    }

    fn dense(&self, values: Vec<f32>, rows: usize, cols: usize) -> Result<CandleMatrix> {
        self.held(Tensor::from_vec(values, (rows, cols), &self.device))
    }

    fn held(&self, made: candle_core::Result<Tensor>) -> Result<CandleMatrix> {
        made.map(CandleMatrix::Dense).map_err(|error| self.failed(error))
    }

    /// Unchanged blocks. candle panics for bytes that are cut or not aligned, and reads past the end of those that are
    /// too short.
    fn blocks(&self, stored: &StoredMatrix, bytes: &[u8], kind: GgmlDType) -> Result<CandleMatrix> {
        let &StoredMatrix { rows, cols, .. } = stored;
        let wanted = rows * (cols / kind.block_size()) * kind.type_size();
        if !cols.is_multiple_of(kind.block_size()) || bytes.len() != wanted {
            let found = bytes.len();
            return Err(stored.unreadable(format!("found {found} bytes, expected {wanted} of {kind:?}")));
        }
        // Every block begins with or holds an f16.
        let aligned = if bytes.as_ptr().addr().is_multiple_of(2) {
            Cow::Borrowed(bytes)
        } else {
            Cow::Owned(bytes.to_vec())
        };
        if !aligned.as_ptr().addr().is_multiple_of(2) {
            return Err(stored.unreadable("its blocks begin at an odd address".to_owned()));
        }
        let made = QStorage::from_data(aligned, &self.device, kind)
            .and_then(|storage| QTensor::new(storage, (rows, cols)));
        made.map(CandleMatrix::Blocks).map_err(|error| self.failed(error))
    }
}

/// The vector `values` as a parameter.
pub(crate) fn vector(backend: &CandleBackend, name: &str, values: Vec<f32>) -> Result<Param> {
    let shape = WeightShape { count: 1, rows: 1, cols: values.len() };
    let tensor = Tensor::from_vec(values, shape.cols, &backend.device);
    let tensor = tensor.map_err(|error| backend.failed(error))?;
    debug_assert_eq!(tensor.dtype(), DType::F32);
    Ok(Param::new(name, shape, Arc::new(tensor)))
}
