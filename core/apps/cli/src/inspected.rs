//! [`Inspected`]: what is in a model's file or folder, read without knowing its architecture.

use crate::failure::Failure;
use crate::{inspected_folder, inspected_gguf};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest value of a key that is shown whole, in characters.
const SHOWN: usize = 60;

/// Longest header of a safetensors file, as its own reader has it.
const MOST_HEADER: u64 = 100_000_000;

/// What is in a file or folder.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Inspected {
    /// `GGUF version 3`, `safetensors`, `folder of Hugging Face`.
    pub(crate) format: String,
    /// Its files.
    pub(crate) files: Vec<InspectedFile>,
    /// The model's name, where it is stated.
    pub(crate) name: Option<String>,
    /// Its architecture as stated: `general.architecture`, or a class.
    pub(crate) architecture: Option<String>,
    /// Its licence, where it is stated.
    pub(crate) licence: Option<String>,
    /// The tokenizer in a line.
    pub(crate) tokenizer: Option<String>,
    /// The chat template.
    pub(crate) template: Option<String>,
    /// Keys in the order of the file.
    pub(crate) keys: Vec<Key>,
    /// Tensors in the order of the file.
    pub(crate) tensors: Vec<Tensor>,
}

/// A file.
#[derive(Debug, Serialize)]
pub(crate) struct InspectedFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// A key and its value.
#[derive(Debug, Serialize)]
pub(crate) struct Key {
    pub(crate) name: String,
    /// Its type as the format names it.
    pub(crate) kind: String,
    pub(crate) value: Value,
}

/// A tensor.
#[derive(Debug, Serialize)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// In the order of the format: of a GGUF the contiguous one first, of safetensors last.
    pub(crate) dims: Vec<u64>,
    /// Its element type as the format names it.
    pub(crate) kind: String,
    pub(crate) bytes: u64,
}

impl Tensor {
    /// Numbers in it.
    pub(crate) fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

impl Key {
    /// The value in a line; of a long one the beginning.
    pub(crate) fn shown(&self) -> String {
        let text = match &self.value {
            Value::Array(values) if values.len() > 4 => {
                let first: Vec<String> = values.iter().take(4).map(ToString::to_string).collect();
                format!("[{}, ...] ({} values)", first.join(", "), values.len())
            }
            value => value.to_string(),
        };
        match text.chars().count() {
            0..=SHOWN => text,
            count => format!("{}... ({count} characters)", text.chars().take(SHOWN).collect::<String>()),
        }
    }
}

impl Inspected {
    /// Reads a file or folder.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        if path.is_dir() {
            return inspected_folder::open(path);
        }
        let mut start = [0; 4];
        let about = |error: std::io::Error| Failure::about(path.display(), error);
        let read = std::fs::File::open(path).map_err(about)?.read(&mut start).map_err(about)?;
        if &start == b"GGUF" {
            return inspected_gguf::open(path);
        }
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            return safetensors_file(path);
        }
        let reason = if read == 0 {
            "it is empty"
        } else {
            "it begins neither as GGUF, nor is it called .safetensors"
        };
        Err(Failure::about(path.display(), reason)
            .with_help("give a .gguf or .safetensors file, or a folder with config.json"))
    }

    /// Element types with the share of the bytes that each has, most first.
    pub(crate) fn types(&self) -> Vec<String> {
        let mut types: BTreeMap<&str, u64> = BTreeMap::new();
        for tensor in &self.tensors {
            *types.entry(&tensor.kind).or_default() += tensor.bytes;
        }
        let total = types.values().sum::<u64>().max(1);
        let mut sorted: Vec<(&str, u64)> = types.into_iter().collect();
        sorted.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        sorted.into_iter().map(|(kind, bytes)| format!("{kind} {} %", bytes * 100 / total)).collect()
    }
}

fn safetensors_file(path: &Path) -> Result<Inspected, Failure> {
    let mut inspected = Inspected { format: "safetensors".to_owned(), ..Inspected::default() };
    add_safetensors(path, &mut inspected)?;
    Ok(inspected)
}

/// What the header of a safetensors file says of a tensor.
#[derive(serde::Deserialize)]
struct HeaderEntry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

/// Adds the keys and tensors of a safetensors file; only its header is read.
pub(crate) fn add_safetensors(path: &Path, into: &mut Inspected) -> Result<(), Failure> {
    let about = |reason: String| Failure::about(path.display(), reason);
    let failed = |error: std::io::Error| about(error.to_string());
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut header = vec![0; 8];
    file.read_exact(&mut header).map_err(|_| about("it is cut off; download the file again".to_owned()))?;
    let length = u64::from_le_bytes(header[..8].try_into().unwrap_or_default());
    if length > MOST_HEADER || length > bytes.saturating_sub(8) {
        return Err(about(format!(
            "not a safetensors file, or cut off: its header would have {length} bytes"
        )));
    }
    file.take(length).read_to_end(&mut header).map_err(failed)?;
    let header: BTreeMap<String, Value> = serde_json::from_slice(&header[8..])
        .map_err(|error| about(format!("not a safetensors file: its header is no JSON: {error}")))?;
    let mut tensors: Vec<((u64, u64), Tensor)> = Vec::new();
    for (name, value) in header {
        if name == "__metadata__" {
            let told = value.as_object().cloned().unwrap_or_default();
            into.keys.extend(told.into_iter().map(|(name, value)| Key {
                name,
                kind: "string".to_owned(),
                value,
            }));
            continue;
        }
        let entry: HeaderEntry = serde_json::from_value(value)
            .map_err(|error| about(format!("not a safetensors file: tensor `{name}`: {error}")))?;
        let (from, to) = entry.data_offsets;
        let bytes =
            to.checked_sub(from).ok_or_else(|| about(format!("tensor `{name}` ends before it begins")))?;
        tensors.push(((from, to), Tensor { name, dims: entry.shape, kind: entry.dtype, bytes }));
    }
    tensors.sort_by_key(|(offsets, _)| *offsets);
    let end = tensors.iter().map(|((_, to), _)| *to).max().unwrap_or(0);
    let told = end.saturating_add(8 + length);
    if bytes != told {
        return Err(about(format!(
            "it has {bytes} bytes and its header speaks of {told}; download the file again"
        )));
    }
    into.tensors.extend(tensors.into_iter().map(|(_, tensor)| tensor));
    into.files.push(InspectedFile { path: path.to_owned(), bytes });
    Ok(())
}
