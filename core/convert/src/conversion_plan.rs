//! [`ConversionPlan`]: the content of a file before it is written.

use crate::error::ConvertError;
use crate::tensor_conversion::{RowUnit, TensorConversion};
use gguf_file::{GgmlType, GgufWriter, OwnedValue};
use menagerie_assembly::WeightSource;
use menagerie_kernels::{BlockType, Cpu, dequantize};
use menagerie_model::{Compute, ModelError, Weight, WeightShape};
use menagerie_quantize::{
    Encoder, FileProgress, Importance, ModelFacts, PlannedTensor, Policy, PolicyTensor, QuantizeError,
    TypeChoice,
};
use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Mutex;

/// Most numbers that are in memory as f32 at a time.
const PART_NUMBERS: usize = 1 << 24;

/// Numbers in one task of a thread.
const CHUNK_NUMBERS: usize = 1 << 15;

/// The metadata and tensors of a file.
pub struct ConversionPlan<'a> {
    /// Descriptions of information that the file cannot contain.
    pub notes: Vec<String>,
    pub(crate) metadata: Vec<(String, OwnedValue)>,
    pub(crate) tensors: Vec<OutputTensor>,
    pub(crate) source: &'a dyn WeightSource,
    pub(crate) compute: &'a Compute,
    pub(crate) importance: Option<(&'a str, &'a Importance)>,
}

/// A tensor of the file.
pub(crate) struct OutputTensor {
    name: String,
    dims: Vec<u64>,
    kind: GgmlType,
    /// The choice of a policy, and the type before.
    choice: Option<(TypeChoice, GgmlType)>,
    from: TensorContent,
}

enum TensorContent {
    Folder(FolderTensor),
    Values(Vec<f32>),
}

/// A tensor of the folder and its change.
struct FolderTensor {
    index: usize,
    /// The tensor of factors that its rows are multiplied with first.
    factors: Option<usize>,
    change: TensorConversion,
}

impl OutputTensor {
    pub(crate) fn of_values(name: String, values: Vec<f32>) -> Self {
        Self {
            name,
            dims: vec![values.len() as u64],
            kind: GgmlType::F32,
            choice: None,
            from: TensorContent::Values(values),
        }
    }

    pub(crate) fn of_tensor(
        name: String,
        dims: Vec<u64>,
        kind: GgmlType,
        (index, factors): (usize, Option<usize>),
        change: TensorConversion,
    ) -> Self {
        Self {
            name,
            dims,
            kind,
            choice: None,
            from: TensorContent::Folder(FolderTensor { index, factors, change }),
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes_in(self.kind)
    }

    fn bytes_in(&self, kind: GgmlType) -> u64 {
        let (length, bytes) = (kind.block_len().unwrap_or(1), kind.block_bytes().unwrap_or(4));
        self.dims.iter().product::<u64>() / length as u64 * bytes as u64
    }
}

impl<'a> ConversionPlan<'a> {
    pub(crate) fn new(source: &'a dyn WeightSource, compute: &'a Compute) -> Self {
        let (notes, metadata, tensors) = (Vec::new(), Vec::new(), Vec::new());
        Self { notes, metadata, tensors, source, compute, importance: None }
    }

    /// Sets the type of each tensor by a policy.
    ///
    /// # Errors
    /// Rows that are not whole blocks; a type that needs importance, but there is none.
    pub(crate) fn choose(&mut self, policy: &Policy, facts: &ModelFacts) -> Result<(), ConvertError> {
        let seen: Vec<PolicyTensor> = (self.tensors.iter())
            .map(|tensor| PolicyTensor {
                name: tensor.name.clone(),
                dims: tensor.dims.clone(),
                kind: tensor.kind,
            })
            .collect();
        let choices = policy.choose(&seen, facts)?;
        for (tensor, choice) in
            self.tensors.iter().zip(&choices).filter(|(_, choice)| choice.needs_importance)
        {
            let shape =
                |from: usize| usize::try_from(tensor.dims.iter().skip(from).product::<u64>()).unwrap_or(0);
            let cols = usize::try_from(tensor.dims.first().copied().unwrap_or(1)).unwrap_or(0);
            let measured = match self.importance {
                Some((_, importance)) => {
                    tensor.name.starts_with("token_embd")
                        || importance.of(&tensor.name, shape(2), cols)?.is_some()
                }
                None => false,
            };
            if !measured {
                return Err(QuantizeError::missing_importance(&tensor.name, choice.kind).into());
            }
        }
        for (tensor, choice) in self.tensors.iter_mut().zip(choices) {
            let before = std::mem::replace(&mut tensor.kind, choice.kind);
            tensor.choice = Some((choice, before));
        }
        Ok(())
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(OutputTensor::bytes).sum()
    }

    /// Names of the tensors, with their dimensions (the contiguous one first) and types.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[u64], GgmlType)> {
        self.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice(), tensor.kind))
    }

    /// The planned type and size of each tensor, as for the quantization of a file.
    pub fn planned(&self) -> Vec<PlannedTensor> {
        let planned = self.tensors.iter().map(|tensor| {
            let usual =
                || (TypeChoice { kind: tensor.kind, instead_of: None, needs_importance: false }, tensor.kind);
            let (choice, from) = tensor.choice.unwrap_or_else(usual);
            let (name, elements) = (tensor.name.clone(), tensor.dims.iter().product());
            PlannedTensor {
                name,
                from,
                choice,
                elements,
                bytes_before: tensor.bytes_in(from),
                bytes: tensor.bytes(),
            }
        });
        planned.collect()
    }

    /// The metadata.
    pub fn metadata(&self) -> &[(String, OwnedValue)] {
        &self.metadata
    }

    /// Writes the file tensor by tensor, over the threads of `cpu`. It appears at `path` when it is complete. `watch`
    /// is called regularly and may stop the conversion.
    ///
    /// # Errors
    /// Weights that cannot be read, errors of the system, [`ConvertError::Stopped`]. No file is left after an error.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        cpu: &Cpu,
        watch: &mut dyn FnMut(FileProgress<'_>) -> ControlFlow<()>,
    ) -> Result<(), ConvertError> {
        let path = path.as_ref();
        let mut writer = GgufWriter::new();
        for (key, value) in &self.metadata {
            writer.metadata(key, value.clone())?;
        }
        for tensor in &self.tensors {
            writer.declare(&tensor.name, &tensor.dims, tensor.kind)?;
        }
        let mut stream = writer.begin(path)?;
        let (mut done, total) = (0, self.bytes());
        for tensor in &self.tensors {
            let mut failed = None;
            let written = stream.tensor_with(&tensor.name, |out| {
                let mut take = |bytes: &[u8]| match watch(FileProgress { tensor: &tensor.name, done, total })
                {
                    ControlFlow::Break(()) => Err(WriteError::Error(ConvertError::Stopped)),
                    ControlFlow::Continue(()) => {
                        done += bytes.len() as u64;
                        out.write_all(bytes).map_err(WriteError::Write)
                    }
                };
                self.encode(tensor, cpu, &mut take).map_err(|halt| match halt {
                    WriteError::Write(error) => error,
                    WriteError::Error(error) => {
                        failed = Some(error);
                        io::Error::other("stopped")
                    }
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            written?;
        }
        stream.commit()?;
        Ok(())
    }

    /// Encodes a tensor in parts, so that only some rows are in memory as f32.
    fn encode(
        &self,
        tensor: &OutputTensor,
        cpu: &Cpu,
        take: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let cols = usize::try_from(tensor.dims.first().copied().unwrap_or(1)).unwrap_or(1).max(1);
        let rows = usize::try_from(tensor.dims.iter().skip(1).product::<u64>()).unwrap_or(usize::MAX);
        let count = usize::try_from(tensor.dims.iter().skip(2).product::<u64>()).unwrap_or(1).max(1);
        let FolderTensor { index, factors, change } = match &tensor.from {
            TensorContent::Values(values) => return encoded(tensor.kind, (values, cols), None, cpu, take),
            TensorContent::Folder(tensor) => tensor,
        };
        let importance = match self.importance {
            Some((_, importance)) if tensor.kind != GgmlType::F32 => {
                importance.of(&tensor.name, count, cols)?
            }
            _ => None,
        };
        let weight = self.source.weight(*index)?;
        let numbers = match factors {
            Some(factors) => self.compute.backend.values(&self.source.weight(*factors)?)?,
            None => Vec::new(),
        };
        let shape = weight.shape();
        let factors = RowFactors { numbers: &numbers, rows: shape.count * shape.rows, cols: shape.cols };
        if change.unit == RowUnit::Number || change.transposed.is_some() {
            let mut values = self.compute.backend.values(&weight)?;
            factors.multiply(&mut values, Some);
            let own = if change.unit == RowUnit::Number { 1 } else { weight.shape().cols };
            return encoded(
                tensor.kind,
                (&change.of_all(values, own), cols),
                importance.as_deref(),
                cpu,
                take,
            );
        }
        // Each matrix of a stack has its own importance.
        let matrix = if importance.is_some() { rows / count } else { rows };
        let together = (PART_NUMBERS / cols).max(1);
        for start in (0..rows).step_by(matrix.max(1)) {
            let at = start / matrix.max(1) * cols;
            let own = importance.as_ref().and_then(|all| all.get(at..at + cols));
            for first in (start..start + matrix).step_by(together) {
                let part = first..(first + together).min(start + matrix);
                let mut values = rows_of(&weight, change, part.clone(), cpu)?;
                factors.multiply(&mut values, |row| change.row(part.start + row));
                let values = change.finish(values, weight.shape().cols);
                encoded(tensor.kind, (&values, cols), own, cpu, take)?;
            }
        }
        Ok(())
    }
}

/// Factors of the rows of a weight. Each applies to an equal share of the rows.
struct RowFactors<'a> {
    numbers: &'a [f32],
    rows: usize,
    cols: usize,
}

impl RowFactors<'_> {
    /// Multiplies rows of values; `source` gives the row of the weight for each of them.
    fn multiply(&self, values: &mut [f32], source: impl Fn(usize) -> Option<usize>) {
        let part = (self.rows / self.numbers.len().max(1)).max(1);
        for (row, values) in values.chunks_mut(self.cols.max(1)).enumerate() {
            if let Some(number) = source(row).and_then(|row| self.numbers.get(row / part)) {
                values.iter_mut().for_each(|value| *value *= number);
            }
        }
    }
}

/// An error while a tensor is written.
enum WriteError {
    Error(ConvertError),
    Write(io::Error),
}

impl<E: Into<ConvertError>> From<E> for WriteError {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Encodes rows as blocks of a type.
fn encoded(
    kind: GgmlType,
    (values, cols): (&[f32], usize),
    importance: Option<&[f32]>,
    cpu: &Cpu,
    take: &mut dyn FnMut(&[u8]) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    if kind == GgmlType::F32 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        return take(&bytes);
    }
    let encoder = Encoder::new(kind, cpu)?;
    let mut blocks = vec![0; encoder.bytes(values.len() / cols, cols)?];
    encoder.encode(values, cols, importance, &mut blocks)?;
    take(&blocks)
}

/// The rows of a weight that a change selects for these rows of the file, as f32.
fn rows_of(
    weight: &Weight,
    change: &TensorConversion,
    part: Range<usize>,
    cpu: &Cpu,
) -> Result<Vec<f32>, WriteError> {
    let WeightShape { count, rows, cols } = weight.shape();
    let unreadable = || QuantizeError::Unreadable { kind: weight.block() };
    let block = BlockType::from_ggml_id(weight.block().id()).ok_or_else(unreadable)?;
    let row_bytes = block.row_bytes(cols).ok_or_else(unreadable)?;
    let matrices = (0..count).map(|index| weight.matrix(index)).collect::<Result<Vec<_>, _>>()?;
    let mut values = vec![0.0; part.len() * cols];
    let failed = Mutex::new(None);
    let many = (CHUNK_NUMBERS / cols).max(1);
    cpu.pool()
        .run_chunks(&mut values, many * cols, &|piece, out| {
            for (at, row) in out.chunks_exact_mut(cols).enumerate() {
                let source = change.row(part.start + piece * many + at);
                let bytes = source.and_then(|source| {
                    let start = source % rows * row_bytes;
                    matrices.get(source / rows)?.get(start..start + row_bytes)
                });
                let read = bytes.map(|bytes| dequantize(block, bytes, row));
                if !matches!(read, Some(Ok(())))
                    && let Ok(mut failed) = failed.lock()
                {
                    failed.get_or_insert(source.unwrap_or_default());
                }
            }
        })
        .map_err(QuantizeError::from)?;
    if let Ok(Some(row)) = failed.into_inner() {
        return Err(
            ModelError::Weights(format!("row {row} of tensor \"{}\" cannot be read", weight.name())).into()
        );
    }
    weight.expect_finite(&values)?;
    Ok(values)
}
