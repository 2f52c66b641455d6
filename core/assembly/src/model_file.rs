//! [`ModelFile`]: what a pipeline needs of a model on disk, whatever its format.

use crate::source::WeightSource;
use menagerie_files::path_text;
use menagerie_loaders::{ChatTemplate, LoadError, SamplingDefaults, Tokenizer, TokenizerOptions};
use menagerie_model::WeightGuard;
use menagerie_spec::{ArchSpec, KeySource, RoleSource, SourceFormat};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The tensors of a model: for a spec to look at, and for the assembler to take.
pub trait ModelTensors: WeightSource + RoleSource + Send + Sync {}

impl<T: WeightSource + RoleSource + Send + Sync> ModelTensors for T {}

/// A model on disk: its keys, its tensors, and what belongs to it.
pub trait ModelFile: fmt::Debug + Send + Sync {
    /// The files, in order.
    fn paths(&self) -> &[PathBuf];

    /// The format: how specs read names in it.
    fn format(&self) -> SourceFormat;

    /// The model's name as the file states it.
    fn name(&self) -> Option<&str>;

    /// The architecture as the file names it: `general.architecture`, or the class of a config.json.
    ///
    /// # Errors
    /// The file does not say.
    fn architecture(&self) -> Result<&str, LoadError>;

    /// Its metadata by canonical keys, as a spec reads them.
    ///
    /// # Errors
    /// As [`ModelFile::architecture`]; a config that the spec cannot be applied to.
    fn keys(&self, spec: &ArchSpec) -> Result<Box<dyn KeySource>, LoadError>;

    /// Its tensors by the roles of a spec.
    ///
    /// # Errors
    /// As [`ModelFile::keys`]; two tensors that have one name for the spec.
    fn tensors(&self, spec: Arc<ArchSpec>) -> Result<Arc<dyn ModelTensors>, LoadError>;

    /// The tokenizer; `pre` is the pre-tokenizer where the file names none.
    ///
    /// # Errors
    /// There is none, or it cannot be built exactly.
    fn tokenizer(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, LoadError>;

    /// The chat template of its own, if it has one; its special tokens come from `tokenizer`.
    ///
    /// # Errors
    /// The template cannot be compiled.
    fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, LoadError>;

    /// The source of a template of its own by name (`rerank`), if it has one of that name.
    ///
    /// # Errors
    /// The file has something else under the name.
    fn template_source(&self, name: &str) -> Result<Option<String>, LoadError>;

    /// What it says about sampling.
    ///
    /// # Errors
    /// A value of another type than expected.
    fn sampling_defaults(&self) -> Result<SamplingDefaults, LoadError>;

    /// Bytes on disk.
    fn bytes(&self) -> u64;

    /// Fails once the files are not what was opened: changed, cut or unreadable.
    fn guard(&self) -> WeightGuard;

    /// The first file, for messages.
    fn file(&self) -> String {
        self.paths().first().map_or_else(|| "the file".to_owned(), |path| path_text(path))
    }
}
