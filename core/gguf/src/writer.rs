//! Writes GGUF files: metadata and tensors are declared first, then written at once or tensor by tensor.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use crate::error::{GgufError, GgufErrorKind, quoted};
use crate::header::{ALIGNMENT_KEY, MAX_ALIGNMENT, MAX_DIMS, MAX_NAME, alignment_is_sane};
use crate::owned_value::{OwnedArray, OwnedValue, encode_string};
use crate::stream::{StreamTensor, TensorStream};
use crate::value::MAX_NESTING;
use crate::{DEFAULT_ALIGNMENT, GgmlType, directory, foreign};
use menagerie_files::AtomicFile;

/// The version that is written.
const VERSION: u32 = 3;

/// Collects a GGUF file (version 3) and writes it: to memory, to a path (all or nothing), or as a stream.
#[derive(Debug, Clone)]
pub struct GgufWriter {
    keys: Vec<(String, OwnedValue)>,
    tensors: Vec<DeclaredTensor>,
    names: HashSet<String>,
    alignment: u64,
}

#[derive(Debug, Clone)]
struct DeclaredTensor {
    name: String,
    dims: Vec<u64>,
    kind: GgmlType,
    bytes: u64,
    data: Option<Vec<u8>>,
}

impl Default for GgufWriter {
    fn default() -> Self {
        Self::new()
    }
}

fn refused(problem: String) -> GgufError {
    GgufError::new("GGUF writer", GgufErrorKind::write(problem))
}

fn check_name(what: &str, name: &str) -> Result<(), GgufError> {
    if name.is_empty() || name.len() as u64 > MAX_NAME {
        let len = name.len();
        return Err(refused(format!("{what} of {len} bytes: names have 1 to {MAX_NAME}")));
    }
    Ok(())
}

impl GgufWriter {
    /// An empty file with the default alignment.
    pub fn new() -> Self {
        Self { keys: Vec::new(), tensors: Vec::new(), names: HashSet::new(), alignment: DEFAULT_ALIGNMENT }
    }

    /// Adds a key.
    ///
    /// # Errors
    /// The key is empty, too long or a duplicate; arrays are nested too deeply; an invalid `general.alignment`, as in
    /// [`Self::alignment`].
    pub fn metadata(&mut self, key: &str, value: impl Into<OwnedValue>) -> Result<&mut Self, GgufError> {
        let value = value.into();
        check_name("a metadata key", key)?;
        if self.keys.iter().any(|(known, _)| known == key) {
            return Err(refused(format!("metadata key {} already exists", quoted(key.as_bytes()))));
        }
        if key == ALIGNMENT_KEY {
            return match value {
                OwnedValue::U32(alignment) => self.alignment(alignment.into()),
                other => Err(refused(format!("{ALIGNMENT_KEY} must be a u32, not {}", other.value_type()))),
            };
        }
        if let OwnedValue::Array(array) = &value
            && array.depth() > MAX_NESTING
        {
            let key = quoted(key.as_bytes());
            return Err(refused(format!("metadata key {key}: arrays are nested deeper than {MAX_NESTING}")));
        }
        self.keys.push((key.to_string(), value));
        Ok(self)
    }

    /// Sets an alignment of tensor data other than 32 bytes and writes `general.alignment`.
    ///
    /// # Errors
    /// Not a power of two from 8 to 16 MiB.
    pub fn alignment(&mut self, alignment: u64) -> Result<&mut Self, GgufError> {
        let value = u32::try_from(alignment).ok().filter(|_| alignment_is_sane(alignment));
        let Some(value) = value else {
            return Err(refused(format!(
                "alignment {alignment} is not a power of two from 8 to {MAX_ALIGNMENT}"
            )));
        };
        self.alignment = alignment;
        self.keys.retain(|(key, _)| key != ALIGNMENT_KEY);
        self.keys.push((ALIGNMENT_KEY.to_string(), OwnedValue::U32(value)));
        Ok(self)
    }

    /// Adds a tensor with its data; `dims` in ggml's order, contiguous first. Any type id is written, also unknown ones.
    ///
    /// # Errors
    /// A duplicate name, impossible dimensions, or data whose length does not match type and dimensions.
    pub fn tensor(
        &mut self,
        name: &str,
        dims: &[u64],
        kind: GgmlType,
        data: Vec<u8>,
    ) -> Result<&mut Self, GgufError> {
        let mut bytes = self.check_tensor(name, dims, kind)?;
        if !kind.is_known() {
            bytes = (data.len() as u64).max(1);
        }
        if data.len() as u64 != bytes {
            let (name, len) = (quoted(name.as_bytes()), data.len());
            return Err(refused(format!(
                "tensor {name} has {len} bytes of data, but {kind} {dims:?} takes {bytes}"
            )));
        }
        Ok(self.push(name, dims, kind, bytes, Some(data)))
    }

    /// Adds a tensor whose data is written later, through [`Self::begin`].
    ///
    /// # Errors
    /// The errors of [`Self::tensor`], and a type of unknown size.
    pub fn declare(&mut self, name: &str, dims: &[u64], kind: GgmlType) -> Result<&mut Self, GgufError> {
        let bytes = self.check_tensor(name, dims, kind)?;
        if !kind.is_known() {
            return Err(refused(format!(
                "tensor {}: the size of type {kind} is not known",
                quoted(name.as_bytes())
            )));
        }
        Ok(self.push(name, dims, kind, bytes, None))
    }

    fn check_tensor(&self, name: &str, dims: &[u64], kind: GgmlType) -> Result<u64, GgufError> {
        check_name("a tensor name", name)?;
        let wrong = |problem: String| refused(format!("tensor {}: {problem}", quoted(name.as_bytes())));
        if self.names.contains(name) {
            return Err(wrong("the tensor already exists".into()));
        }
        if dims.len() > MAX_DIMS as usize {
            return Err(wrong(format!("{} dimensions, more than {MAX_DIMS}", dims.len())));
        }
        directory::byte_count(dims, kind).map_err(wrong)
    }

    fn push(
        &mut self,
        name: &str,
        dims: &[u64],
        kind: GgmlType,
        bytes: u64,
        data: Option<Vec<u8>>,
    ) -> &mut Self {
        self.names.insert(name.to_string());
        self.tensors.push(DeclaredTensor { name: name.into(), dims: dims.into(), kind, bytes, data });
        self
    }

    /// Header and directory, padded to the start of tensor data, and the offset of each tensor from there.
    fn encode(&self) -> Result<(Vec<u8>, Vec<StreamTensor>), GgufError> {
        let mut out = Vec::new();
        out.extend(foreign::MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            encode_string(key.as_bytes(), &mut out);
            value.encode(&mut out);
        }
        let mut plan = Vec::with_capacity(self.tensors.len());
        let mut offset = 0_u64;
        for tensor in &self.tensors {
            encode_string(tensor.name.as_bytes(), &mut out);
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.kind.id().to_le_bytes());
            out.extend(offset.to_le_bytes());
            let end =
                offset.checked_add(tensor.bytes).and_then(|end| end.checked_next_multiple_of(self.alignment));
            let too_much = || refused("all tensors together overflow 64 bits".into());
            offset = end.ok_or_else(too_much)?;
            plan.push(StreamTensor { name: tensor.name.clone(), bytes: tensor.bytes });
        }
        let aligned = (out.len() as u64).next_multiple_of(self.alignment);
        out.resize(usize::try_from(aligned).map_err(|_| refused("the header is too long".into()))?, 0);
        Ok((out, plan))
    }

    /// Writes the header to `sink`; the tensors' data follows through the stream, in the order they were added.
    ///
    /// # Errors
    /// The sink fails.
    pub fn begin_into<W: Write>(&self, sink: W) -> Result<TensorStream<W>, GgufError> {
        let (header, plan) = self.encode()?;
        TensorStream::begin(sink, &header, plan, self.alignment)
    }

    /// As [`Self::begin_into`], to a file that appears at `path` with [`TensorStream::commit`].
    ///
    /// # Errors
    /// The errors of [`AtomicFile::create`] and [`Self::begin_into`].
    pub fn begin(&self, path: impl AsRef<Path>) -> Result<TensorStream<AtomicFile>, GgufError> {
        let path = path.as_ref();
        self.begin_into(AtomicFile::create(path)?)
    }

    fn fill<W: Write>(&self, stream: &mut TensorStream<W>) -> Result<(), GgufError> {
        for tensor in &self.tensors {
            let Some(data) = &tensor.data else {
                let name = quoted(tensor.name.as_bytes());
                return Err(refused(format!(
                    "tensor {name} was declared without data; write it through the stream"
                )));
            };
            stream.tensor(&tensor.name, data)?;
        }
        Ok(())
    }

    /// The whole file in memory.
    ///
    /// # Errors
    /// A tensor was declared without data.
    pub fn to_bytes(&self) -> Result<Vec<u8>, GgufError> {
        let mut stream = self.begin_into(Vec::new())?;
        self.fill(&mut stream)?;
        stream.finish()
    }

    /// Writes the whole file to `path`: written beside it, made durable, renamed.
    ///
    /// # Errors
    /// A tensor was declared without data, or the system reports an error; then `path` is unchanged.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), GgufError> {
        let path = path.as_ref();
        let mut stream = self.begin(path)?;
        self.fill(&mut stream)?;
        stream.commit()
    }

    /// Adds an array of strings that need not be UTF-8.
    ///
    /// # Errors
    /// The errors of [`Self::metadata`].
    pub fn strings<S: AsRef<[u8]>>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = S>,
    ) -> Result<&mut Self, GgufError> {
        self.metadata(key, OwnedArray::strings(items))
    }
}
