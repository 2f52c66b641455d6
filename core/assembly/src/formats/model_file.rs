//! [`ModelFile`]: a model on disk, in any format.

use crate::source::WeightSource;
use menagerie_files::path_text;
use menagerie_loaders::{ChatTemplate, LoadError, SamplingDefaults, Tokenizer, TokenizerOptions};
use menagerie_model::WeightGuard;
use menagerie_spec::{ArchSpec, KeySource, RoleSource, SourceFormat};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The tensors of a model: for a spec to inspect, and for the assembler to load.
pub trait ModelTensors: WeightSource + RoleSource + Send + Sync {}

impl<T: WeightSource + RoleSource + Send + Sync> ModelTensors for T {}

/// A model on disk: its keys, its tensors, its tokenizer and templates.
pub trait ModelFile: fmt::Debug + Send + Sync {
    /// The files, in order.
    fn paths(&self) -> &[PathBuf];

    /// The format, which determines how specs read its names.
    fn format(&self) -> SourceFormat;

    /// The name of the model in the file.
    fn name(&self) -> Option<&str>;

    /// The architecture in the file: `general.architecture`, or the class of a config.json.
    ///
    /// # Errors
    /// The file does not state it.
    fn architecture(&self) -> Result<&str, LoadError>;

    /// Its metadata by canonical keys, as a spec reads them.
    ///
    /// # Errors
    /// As [`ModelFile::architecture`]; the spec does not fit the config.
    fn keys(&self, spec: &ArchSpec) -> Result<Box<dyn KeySource>, LoadError>;

    /// Its tensors by the roles of a spec.
    ///
    /// # Errors
    /// As [`ModelFile::keys`]; two tensors have the same name for the spec.
    fn tensors(&self, spec: Arc<ArchSpec>) -> Result<Arc<dyn ModelTensors>, LoadError>;

    /// The tokenizer.
    ///
    /// # Errors
    /// There is none, or it cannot be built exactly.
    fn tokenizer(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, LoadError>;

    /// The chat template of the file, if it has one, with the special tokens of `tokenizer`.
    ///
    /// # Errors
    /// The template cannot be compiled.
    fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, LoadError>;

    /// The source of the template of this name (`rerank`), if the file has one.
    ///
    /// # Errors
    /// The value under this name is not a template.
    fn template_source(&self, name: &str) -> Result<Option<String>, LoadError>;

    /// The sampling options that the file recommends.
    ///
    /// # Errors
    /// A value has an unexpected type.
    fn sampling_defaults(&self) -> Result<SamplingDefaults, LoadError>;

    /// Bytes on disk.
    fn bytes(&self) -> u64;

    /// A function that fails once the files have changed since they were opened: modified, truncated or unreadable.
    fn guard(&self) -> WeightGuard;

    /// The first file, for messages.
    fn file(&self) -> String {
        self.paths().first().map_or_else(|| "the file".to_owned(), |path| path_text(path))
    }
}
