//! [`AdapterFile`]: an adapter on disk, in any format.

use crate::adapter_tensor::AdapterTensor;
use crate::error::{AdapterError, about};
use crate::module::{AdapterModule, LowRankPair, ModuleChange};
use crate::{gguf, peft};
use std::path::{Path, PathBuf};

/// The format of an adapter, which determines the names of modules and the order of rows of queries and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdapterFormat {
    /// A PEFT folder: modules of the Hugging Face class.
    Peft,
    /// A GGUF file: tensors of the GGUF model.
    Gguf,
}

impl AdapterFormat {
    /// The name in listings.
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
    /// The model that it was trained on, as stated in the file.
    pub base: Option<String>,
    /// The architecture that it belongs to, if the file states it (GGUF).
    pub architecture: Option<String>,
    /// Its modules, by name.
    pub modules: Vec<AdapterModule>,
    /// Facts for listings: key and value.
    pub facts: Vec<(String, String)>,
}

impl AdapterFile {
    /// Whether there is an adapter at a path: a folder with `adapter_config.json`, or a GGUF file of the type "adapter".
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        if path.is_dir() { path.join(peft::CONFIG).is_file() } else { gguf::is_adapter(path) }
    }

    /// Reads an adapter: a PEFT folder (or its `adapter_config.json` or `adapter_model.safetensors`), or a GGUF file.
    ///
    /// # Errors
    /// A missing or damaged file; a key or tensor that changes the result in an unsupported way.
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
                "there is no such adapter; expected a PEFT folder or a .gguf file",
            ));
        }
        gguf::open(path)
    }

    /// The path, for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The number of parameters.
    pub fn parameters(&self) -> u64 {
        self.sum(AdapterTensor::elements, AdapterTensor::elements)
    }

    /// The memory of its tensors once it is fitted to a model, in bytes: low-rank factors as they are multiplied, the
    /// rest as stored.
    pub fn memory_bytes(&self) -> u64 {
        self.sum(AdapterTensor::factor_bytes, AdapterTensor::stored_bytes)
    }

    /// Adds up the sizes of the low-rank factors and of the other tensors.
    fn sum(&self, factor: fn(&AdapterTensor) -> u64, other: fn(&AdapterTensor) -> u64) -> u64 {
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
