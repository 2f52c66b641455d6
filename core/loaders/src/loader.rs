//! A GGUF file, and the parts of it that are not tensors.

mod canonical_keys;
mod error;
mod quantization;
mod sampling_defaults;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use gguf_file::{GgufFile, OpenOptions, Value};
use menagerie_files::path_text;

pub use canonical_keys::CanonicalKeys;
pub use error::LoadError;
pub use sampling_defaults::SamplingDefaults;

use crate::template::ChatTemplate;
use crate::tokenizer::{Tokenizer, TokenizerOptions};

const ARCHITECTURE: &str = "general.architecture";
const CHAT_TEMPLATE: &str = "tokenizer.chat_template";

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Whether the file is memory-mapped (default) or read into memory.
    pub mmap: bool,
}

impl LoadOptions {
    /// The same with this [`Self::mmap`].
    #[must_use]
    pub fn with_mmap(self, mmap: bool) -> Self {
        Self { mmap, ..self }
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self { mmap: true }
    }
}

/// An open GGUF file, in one or several parts; cheap to clone.
#[derive(Debug, Clone)]
pub struct GgufLoader {
    file: Arc<GgufFile>,
}

impl GgufLoader {
    /// Opens a file, and its other parts where it is the first of several.
    ///
    /// # Errors
    /// The errors of [`GgufFile::open`].
    pub fn open(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let file = GgufFile::open(path, &OpenOptions::default().with_mmap(options.mmap))?;
        Ok(Self::from_file(Arc::new(file)))
    }

    /// A loader for a file that is already open.
    pub fn from_file(file: Arc<GgufFile>) -> Self {
        Self { file }
    }

    /// The file.
    pub fn file(&self) -> &Arc<GgufFile> {
        &self.file
    }

    /// `general.architecture`, the prefix of the model's keys.
    ///
    /// # Errors
    /// The key is absent, empty or not a string.
    pub fn architecture(&self) -> Result<&str, LoadError> {
        match self.file.metadata().get(ARCHITECTURE) {
            Some(Value::String(name)) if !name.is_empty() => Ok(name),
            Some(Value::String(_)) => Err(self.bad_key(ARCHITECTURE, "it is empty")),
            Some(other) => {
                Err(self.bad_key(ARCHITECTURE, &format!("expected a string, found {}", other.value_type())))
            }
            None => Err(LoadError::NoArchitecture { file: self.name() }),
        }
    }

    /// `general.name`, if the file has one.
    pub fn model_name(&self) -> Option<&str> {
        self.file.metadata().get("general.name").and_then(|value| value.as_str())
    }

    /// The metadata by canonical keys: keys under the architecture's prefix without it, all others unchanged.
    ///
    /// # Errors
    /// As [`Self::architecture`].
    pub fn canonical_keys(&self) -> Result<CanonicalKeys, LoadError> {
        Ok(CanonicalKeys::new(Arc::clone(&self.file), self.architecture()?))
    }

    /// The file's tokenizer.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::from_gguf`], with the file's name.
    pub fn tokenizer(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, LoadError> {
        Tokenizer::from_gguf(self.file.metadata(), options)
            .map_err(|source| LoadError::Tokenizer { file: self.name(), source })
    }

    /// The source of a chat template, if the file has it: `default`, or the name of a template (such as `tool_use`).
    ///
    /// # Errors
    /// The key does not contain a string.
    pub fn chat_template_source(&self, name: &str) -> Result<Option<&str>, LoadError> {
        let named = format!("{CHAT_TEMPLATE}.{name}");
        let metadata = self.file.metadata();
        let default = (name == "default").then(|| metadata.get(CHAT_TEMPLATE)).flatten();
        match metadata.get(&named).or(default) {
            None => Ok(None),
            Some(Value::String(source)) => Ok(Some(source)),
            Some(other) => {
                Err(self.bad_key(&named, &format!("expected a string, found {}", other.value_type())))
            }
        }
    }

    /// The file's own chat template; `None` where it has none. `bos_token` and `eos_token` come from `tokenizer`.
    ///
    /// # Errors
    /// The file has a template that cannot be used. This differs from having none, and must be shown.
    pub fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, LoadError> {
        let Some(source) = self.chat_template_source("default")? else {
            return Ok(None);
        };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id).ok());
        let template = ChatTemplate::new("default", source, text(tokenizer.bos()), text(tokenizer.eos()))
            .map_err(|source| LoadError::Template { file: self.name(), source })?;
        Ok(Some(template))
    }

    /// The sampling defaults of the file (`general.sampling.*`).
    ///
    /// # Errors
    /// A key has a value of another type.
    pub fn sampling_defaults(&self) -> Result<SamplingDefaults, LoadError> {
        SamplingDefaults::read(self.file.metadata()).map_err(|(key, problem)| self.bad_key(key, &problem))
    }

    /// The storage of the weights: the name of `general.file_type`, or else the type of most weights.
    pub fn quantization(&self) -> String {
        quantization::label(&self.file)
    }

    fn name(&self) -> String {
        self.file.paths().first().map_or_else(|| "the file".to_owned(), |path| path_text(path))
    }

    fn bad_key(&self, key: &str, problem: &str) -> LoadError {
        LoadError::BadKey { file: self.name(), key: key.to_owned(), problem: problem.to_owned() }
    }
}
