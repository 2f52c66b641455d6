//! [`Plan`]: a file before it is written.

use crate::change::Change;
use crate::error::ConvertError;
use gguf_file::{GgmlType, GgufWriter, OwnedValue};
use menagerie_assembly::WeightSource;
use menagerie_kernels::Cpu;
use menagerie_model::Compute;
use menagerie_quantise::{Encoder, ModelFacts, Policy, PolicyTensor};
use std::ops::ControlFlow;
use std::path::Path;

/// How far a file is written.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The tensor that is written next.
    pub tensor: &'a str,
    /// Bytes of tensors that are written.
    pub done: u64,
    /// Of all tensors.
    pub total: u64,
}

/// Metadata and tensors of a file.
pub struct Plan<'a> {
    /// What the folder says and the file does not, in words.
    pub notes: Vec<String>,
    pub(crate) metadata: Vec<(String, OwnedValue)>,
    pub(crate) tensors: Vec<Stored>,
    pub(crate) source: &'a dyn WeightSource,
    pub(crate) compute: &'a Compute,
}

/// A tensor of the file.
pub(crate) struct Stored {
    name: String,
    dims: Vec<u64>,
    kind: GgmlType,
    from: From,
}

enum From {
    /// A tensor of the folder, and what is done to it.
    Tensor(usize, Change),
    Values(Vec<f32>),
}

impl Stored {
    pub(crate) fn of_values(name: String, values: Vec<f32>) -> Self {
        Self { name, dims: vec![values.len() as u64], kind: GgmlType::F32, from: From::Values(values) }
    }

    pub(crate) fn of_tensor(
        name: String,
        dims: Vec<u64>,
        kind: GgmlType,
        index: usize,
        change: Change,
    ) -> Self {
        Self { name, dims, kind, from: From::Tensor(index, change) }
    }

    fn bytes(&self) -> u64 {
        let (length, bytes) = (self.kind.block_len().unwrap_or(1), self.kind.block_bytes().unwrap_or(4));
        self.dims.iter().product::<u64>() / length as u64 * bytes as u64
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn new(source: &'a dyn WeightSource, compute: &'a Compute) -> Self {
        Self { notes: Vec::new(), metadata: Vec::new(), tensors: Vec::new(), source, compute }
    }

    /// Gives each tensor the type that a policy has for it.
    ///
    /// # Errors
    /// Rows that are no whole blocks, a type that is nothing without importance.
    pub(crate) fn choose(&mut self, policy: &Policy, facts: &ModelFacts) -> Result<(), ConvertError> {
        let seen: Vec<PolicyTensor> = (self.tensors.iter())
            .map(|tensor| PolicyTensor {
                name: tensor.name.clone(),
                dims: tensor.dims.clone(),
                kind: tensor.kind,
            })
            .collect();
        let choices = policy.choose(&seen, facts)?;
        if let Some((tensor, choice)) = self.tensors.iter().zip(&choices).find(|(_, it)| it.needs_importance)
        {
            let problem = format!(
                "{} is nothing without an importance matrix; convert without --quant, then use quantize with --imatrix",
                choice.kind
            );
            return Err(ConvertError::Tensor {
                folder: "the folder".into(),
                tensor: tensor.name.clone(),
                problem,
            });
        }
        for (tensor, choice) in self.tensors.iter_mut().zip(choices) {
            tensor.kind = choice.kind;
        }
        Ok(())
    }

    /// Bytes of all tensors.
    pub fn bytes(&self) -> u64 {
        self.tensors.iter().map(Stored::bytes).sum()
    }

    /// Names of the tensors, with their dimensions (the contiguous one first) and types.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &[u64], GgmlType)> {
        self.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.dims.as_slice(), tensor.kind))
    }

    /// The keys and their values.
    pub fn metadata(&self) -> &[(String, OwnedValue)] {
        &self.metadata
    }

    /// Writes the file, tensor by tensor over the threads of `cpu`; it appears at `path` when it is whole. `watch` is asked
    /// before each tensor whether to go on.
    ///
    /// # Errors
    /// Weights that cannot be read or written, the system's; [`ConvertError::Stopped`]. No file is left then.
    pub fn write(
        &self,
        path: &Path,
        cpu: &Cpu,
        watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
    ) -> Result<(), ConvertError> {
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
            let progress = Progress { tensor: &tensor.name, done, total };
            if watch(progress).is_break() {
                return Err(ConvertError::Stopped);
            }
            stream.tensor(&tensor.name, &self.encoded(tensor, cpu)?)?;
            done += tensor.bytes();
        }
        stream.commit()?;
        Ok(())
    }

    fn encoded(&self, tensor: &Stored, cpu: &Cpu) -> Result<Vec<u8>, ConvertError> {
        let cols = usize::try_from(tensor.dims.first().copied().unwrap_or(1)).unwrap_or(1);
        let values = match &tensor.from {
            From::Values(values) => values.clone(),
            From::Tensor(index, change) => {
                let weight = self.source.weight(*index)?;
                let values = self.compute.backend.values(&weight)?;
                // A vector is a row of its own for each number.
                change.apply(values, if tensor.dims.len() < 2 { 1 } else { cols })
            }
        };
        if tensor.kind == GgmlType::F32 {
            return Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect());
        }
        let encoder = Encoder::new(tensor.kind, cpu)?;
        let mut blocks = vec![0; encoder.bytes(values.len() / cols.max(1), cols)?];
        encoder.encode(&values, cols, None, &mut blocks)?;
        Ok(blocks)
    }
}
