//! [`AdapterFile`]: an adapter as it lies on disk, whatever its format.

use crate::error::{AdapterError, about};
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use crate::tensor::Tensor;
use crate::{gguf, peft};
use std::path::{Path, PathBuf};

/// The format of an adapter: how it names modules, and in which order rows of queries and keys lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterFormat {
    /// A PEFT folder: modules of the HF class.
    Peft,
    /// A GGUF file: tensors of the GGUF model.
    Gguf,
}

impl AdapterFormat {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peft => "PEFT",
            Self::Gguf => "GGUF",
        }
    }
}

/// An adapter as it was read, before it is fitted to a model.
#[derive(Clone, Debug)]
pub struct AdapterFile {
    /// The folder or the file.
    pub path: PathBuf,
    /// Its format.
    pub format: AdapterFormat,
    /// The model it was trained on, as it says.
    pub base: Option<String>,
    /// The architecture it is of, where it says so (GGUF).
    pub architecture: Option<String>,
    /// Its modules, by name.
    pub modules: Vec<AdapterModule>,
    /// What it says of itself, for people: key and value.
    pub facts: Vec<(String, String)>,
}

impl AdapterFile {
    /// Whether there is an adapter at a path: a folder with `adapter_config.json`, or a GGUF file that says it is one.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        if path.is_dir() { path.join(peft::CONFIG).is_file() } else { gguf::is_adapter(path) }
    }

    /// Reads an adapter: a PEFT folder (or its `adapter_config.json` or `adapter_model.safetensors`), or a GGUF file.
    ///
    /// # Errors
    /// Nothing there, a damaged file, a key or tensor that changes the result in a way that is not understood.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, AdapterError> {
        let path = path.as_ref();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if path.is_dir() {
            return peft::open(path);
        }
        if name == peft::CONFIG || name == peft::WEIGHTS {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            return peft::open(folder.unwrap_or_else(|| Path::new(".")));
        }
        if !path.is_file() {
            return Err(about(
                &path.display().to_string(),
                "there is no such adapter; give a PEFT folder or a .gguf file",
            ));
        }
        gguf::open(path)
    }

    /// The path, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Numbers in all its tensors.
    pub fn parameters(&self) -> u64 {
        self.sum(Tensor::elements, Tensor::elements)
    }

    /// Bytes of all its tensors in memory once it is fitted to a model: low-rank factors as they are multiplied, the rest
    /// as stored.
    pub fn memory_bytes(&self) -> u64 {
        self.sum(Tensor::factor_bytes, Tensor::stored_bytes)
    }

    /// Adds up the sizes of the low-rank factors and of the other tensors.
    fn sum(&self, factor: fn(&Tensor) -> u64, other: fn(&Tensor) -> u64) -> u64 {
        let pair = |pair: &LowRankPair| factor(&pair.a) + factor(&pair.b);
        let of = |module: &AdapterModule| match &module.change {
            ModuleChange::Linear { pair: matrices, magnitude, bias } => {
                let vectors = [magnitude, bias].into_iter().flatten().map(other).sum::<u64>();
                matrices.as_ref().map_or(0, pair) + vectors
            }
            // The rows of a table's A are looked up, not multiplied.
            ModuleChange::Table(matrices) => other(&matrices.a) + factor(&matrices.b),
            ModuleChange::Parameter { pair: matrices, .. } => pair(matrices),
            ModuleChange::Whole { weight, bias } => other(weight) + bias.as_ref().map_or(0, other),
        };
        self.modules.iter().map(of).sum()
    }
}
