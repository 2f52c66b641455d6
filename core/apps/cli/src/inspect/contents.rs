//! [`FileContents`]: the contents of a model's file or folder.

use menagerie::files::path_text;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest value of a key that is printed in full, in characters.
const SHOWN: usize = 60;

/// The contents of a file or folder.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FileContents {
    /// `GGUF version 3`, `safetensors`, `Hugging Face folder`.
    pub(crate) format: String,
    /// Its files.
    pub(crate) files: Vec<FileSize>,
    /// The model's name, if it is stated.
    pub(crate) name: Option<String>,
    /// Its architecture: `general.architecture`, or a class.
    pub(crate) architecture: Option<String>,
    /// Its license, if it is stated.
    pub(crate) license: Option<String>,
    /// The tokenizer in one line.
    pub(crate) tokenizer: Option<String>,
    /// The chat template.
    #[serde(rename = "chat_template")]
    pub(crate) template: Option<String>,
    /// Keys in the order of the file.
    pub(crate) keys: Vec<KeySummary>,
    /// Tensors in the order of the file.
    pub(crate) tensors: Vec<TensorSummary>,
}

fn path_as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path_text(path))
}

/// A file.
#[derive(Debug, Serialize)]
pub(crate) struct FileSize {
    #[serde(serialize_with = "path_as_text")]
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// A key and its value.
#[derive(Debug, Serialize)]
pub(crate) struct KeySummary {
    pub(crate) name: String,
    /// Its type, named as in the format.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) value: Value,
}

/// A tensor.
#[derive(Debug, Serialize)]
pub(crate) struct TensorSummary {
    pub(crate) name: String,
    /// In the order of the format: the contiguous dimension is first in GGUF, last in safetensors.
    pub(crate) dims: Vec<u64>,
    /// Its element type, named as in the format.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) bytes: u64,
}

impl TensorSummary {
    /// Number of elements.
    pub(crate) fn elements(&self) -> u64 {
        self.dims.iter().product()
    }
}

impl KeySummary {
    /// The value in one line; a long value is shortened.
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

impl FileContents {
    /// Element types with their shares of the bytes, largest first.
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
