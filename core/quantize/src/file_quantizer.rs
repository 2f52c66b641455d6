//! [`FileQuantizer`]: writes a GGUF file again with other tensor types.

use crate::error::QuantizeError;
use crate::importance::Importance;
use crate::policy::{ModelFacts, Policy, PolicyTensor, TypeChoice};
use crate::tensor_source::TensorSource;
use gguf_file::{GgmlType, GgufFile, GgufWriter, Metadata, OwnedValue, TensorInfo};
use menagerie_kernels::Cpu;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

/// The version of the block formats in the metadata (`GGML_QNT_VERSION`).
const FORMAT_VERSION: u32 = 2;
/// Bytes copied at a time for unchanged tensors.
const COPY_BYTES: usize = 1 << 22;

/// The progress of writing a file, by quantization or conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileProgress<'a> {
    /// The current tensor.
    pub tensor: &'a str,
    /// Processed bytes: of the source of a quantization, of the result of a conversion.
    pub done: u64,
    /// All of these bytes.
    pub total: u64,
}

/// The planned type and size of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTensor {
    /// Its name.
    pub name: String,
    /// Its type in the source.
    pub from: GgmlType,
    /// Its new type.
    pub choice: TypeChoice,
    /// Number of elements.
    pub elements: u64,
    /// Bytes in the source.
    pub bytes_before: u64,
    /// Bytes in the new file.
    pub bytes: u64,
}

/// A file and the plan for quantizing it.
pub struct FileQuantizer<'a> {
    file: &'a GgufFile,
    policy: &'a Policy,
    importance: Option<(&'a str, &'a Importance)>,
    planned: Vec<PlannedTensor>,
}

impl<'a> FileQuantizer<'a> {
    /// Plans the quantization. `importance` is the name of its file and its content.
    ///
    /// # Errors
    /// Tensors that are quantized already, unless `requantize`; missing importance; importance of another model; rows
    /// that are not whole blocks of any possible type.
    pub fn new(
        file: &'a GgufFile,
        policy: &'a Policy,
        importance: Option<(&'a str, &'a Importance)>,
        requantize: bool,
    ) -> Result<Self, QuantizeError> {
        let tensors: Vec<PolicyTensor> = file.tensors().iter().map(policy_tensor).collect();
        let choices = policy.choose(&tensors, &facts_of(file.metadata()))?;
        let planned = file.tensors().iter().zip(choices).map(|(info, choice)| {
            let rows = info.dims().iter().skip(1).product::<u64>();
            let row = choice.kind.row_bytes(info.dims().first().copied().unwrap_or(0));
            let bytes = row.and_then(|row| row.checked_mul(rows)).filter(|_| choice.kind != info.kind());
            let planned = PlannedTensor {
                name: info.name().to_owned(),
                from: info.kind(),
                choice,
                elements: info.elements(),
                bytes_before: info.bytes(),
                bytes: bytes.unwrap_or(info.bytes()),
            };
            check(&planned, policy, requantize).map(|()| planned)
        });
        let planned = planned.collect::<Result<Vec<_>, _>>()?;
        let job = Self { file, policy, importance, planned };
        job.check_importance()?;
        Ok(job)
    }

    /// The plan for each tensor, in the order of the file.
    pub fn planned(&self) -> &[PlannedTensor] {
        &self.planned
    }

    /// Bytes of all tensors in the new file.
    pub fn bytes(&self) -> u64 {
        self.planned.iter().map(|tensor| tensor.bytes).sum()
    }

    fn check_importance(&self) -> Result<(), QuantizeError> {
        let Some((file, importance)) = self.importance else {
            let needy = self.planned.iter().find(|tensor| tensor.choice.needs_importance);
            return needy.map_or(Ok(()), |tensor| Err(without_importance(tensor)));
        };
        let known = |name: &String| self.file.tensor(name).is_some();
        if !importance.entries.keys().any(known) {
            return Err(importance.of_other_model(file));
        }
        for (tensor, info) in self.planned.iter().zip(self.file.tensors()) {
            let (count, _, cols) = sizes(info)?;
            let has =
                tensor.name.starts_with("token_embd") || importance.of(&tensor.name, count, cols)?.is_some();
            if tensor.choice.needs_importance && tensor.from != tensor.choice.kind && !has {
                return Err(without_importance(tensor));
            }
        }
        Ok(())
    }

    /// Writes the file tensor by tensor, over the threads of `cpu`. It appears when it is complete. `progress` may
    /// cancel it.
    ///
    /// # Errors
    /// A tensor that cannot be read or encoded, errors of the system, [`QuantizeError::Cancelled`].
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        cpu: &Cpu,
        progress: &mut dyn FnMut(FileProgress) -> ControlFlow<()>,
    ) -> Result<(), QuantizeError> {
        let path = path.as_ref();
        let mut writer = self.metadata()?;
        for (tensor, info) in self.planned.iter().zip(self.file.tensors()) {
            writer.declare(&tensor.name, info.dims(), tensor.choice.kind)?;
        }
        let mut stream = writer.begin(path)?;
        let (mut done, total) = (0, self.planned.iter().map(|tensor| tensor.bytes_before).sum());
        for (tensor, info) in self.planned.iter().zip(self.file.tensors()) {
            let mut failed = None;
            let written = stream.tensor_with(&tensor.name, |out| {
                let mut ended = || progress(FileProgress { tensor: &tensor.name, done, total }).is_break();
                self.tensor(tensor, info, cpu, &mut |bytes| {
                    if ended() {
                        return Err(QuantizeError::Cancelled);
                    }
                    out.write_all(bytes).map_err(|error| QuantizeError::Write(error.to_string()))
                })
                .map_err(|error| {
                    failed = Some(error);
                    io::Error::other("stopped")
                })
            });
            if let Some(error) = failed {
                return Err(error);
            }
            written?;
            done += tensor.bytes_before;
        }
        self.file.check_alive()?;
        Ok(stream.commit()?)
    }

    /// The metadata of the source, with the new file type.
    fn metadata(&self) -> Result<GgufWriter, QuantizeError> {
        let mut writer = GgufWriter::new();
        let replaced = ["general.file_type", "general.quantization_version"];
        let left = |key: &str| {
            key.starts_with("split.") || key.starts_with("quantize.imatrix.") || replaced.contains(&key)
        };
        for (key, value) in self.file.metadata().iter().filter(|(key, _)| !left(key)) {
            writer.metadata(key, OwnedValue::from(value))?;
        }
        writer.metadata("general.quantization_version", FORMAT_VERSION)?;
        writer.metadata("general.file_type", self.policy.file_type().id())?;
        if let Some((file, importance)) = self.importance {
            writer.metadata("quantize.imatrix.file", file)?;
            if let Some(dataset) = importance.datasets.first() {
                writer.metadata("quantize.imatrix.dataset", dataset.as_str())?;
            }
            writer.metadata("quantize.imatrix.entries_count", importance.entries.len() as u32)?;
            writer.metadata("quantize.imatrix.chunks_count", importance.chunks)?;
        }
        Ok(writer)
    }

    fn tensor(
        &self,
        tensor: &PlannedTensor,
        info: &TensorInfo,
        cpu: &Cpu,
        take: &mut dyn FnMut(&[u8]) -> Result<(), QuantizeError>,
    ) -> Result<(), QuantizeError> {
        let bytes = self.file.data(info)?;
        if tensor.from == tensor.choice.kind {
            return bytes.chunks(COPY_BYTES).try_for_each(take);
        }
        let (count, rows, cols) = sizes(info)?;
        let source = TensorSource { name: &tensor.name, kind: tensor.from, bytes: &bytes, count, rows, cols };
        let importance = match self.importance {
            Some((_, importance)) => importance.of(&tensor.name, count, cols)?,
            None => None,
        };
        source.encode(cpu, tensor.choice.kind, importance.as_deref(), take)
    }
}

fn policy_tensor(info: &TensorInfo) -> PolicyTensor {
    PolicyTensor { name: info.name().to_owned(), dims: info.dims().to_vec(), kind: info.kind() }
}

/// Matrices, rows and columns of a tensor.
fn sizes(info: &TensorInfo) -> Result<(usize, usize, usize), QuantizeError> {
    let size = |at: usize| info.dims().get(at).map_or(Ok(1), |dim| usize::try_from(*dim));
    let too_large = || {
        QuantizeError::Write(format!(
            "tensor \"{}\" is too large for this machine's address space",
            info.name()
        ))
    };
    match (size(0), size(1), size(2), size(3)) {
        (Ok(cols), Ok(rows), Ok(third), Ok(fourth)) => Ok((third.saturating_mul(fourth), rows, cols)),
        _ => Err(too_large()),
    }
}

/// Whether a type has blocks, so that its values are rounded.
pub fn is_rounded(kind: GgmlType) -> bool {
    kind.block_len().is_some_and(|block| block > 1)
}

fn check(tensor: &PlannedTensor, policy: &Policy, requantize: bool) -> Result<(), QuantizeError> {
    let PlannedTensor { name, from, choice, .. } = tensor;
    if *from != choice.kind && is_rounded(*from) && !requantize {
        return Err(QuantizeError::Requantized {
            tensor: name.clone(),
            from: *from,
            file: policy.file_type(),
        });
    }
    Ok(())
}

fn without_importance(tensor: &PlannedTensor) -> QuantizeError {
    QuantizeError::missing_importance(&tensor.name, tensor.choice.kind)
}

/// The facts that a policy needs, from the keys of the architecture.
fn facts_of(keys: &Metadata) -> ModelFacts {
    let architecture = keys.get("general.architecture").and_then(|value| value.as_str()).unwrap_or_default();
    let number = |key: &str| {
        let value = keys.get(&format!("{architecture}.{key}"))?;
        let first = || value.as_array()?.integers()?.next().and_then(|value| u64::try_from(value).ok());
        value.as_u64().or_else(first).and_then(|value| usize::try_from(value).ok())
    };
    ModelFacts::of(number)
}
