//! [`GgufModel`]: a GGUF file as a [`ModelFile`].

use super::FileFormat;
use super::gguf_source::GgufSource;
use super::model_file::{ModelFile, ModelTensors};
use gguf_file::{GgufFile, Value};
use menagerie_loaders::{
    CanonicalKeys, ChatTemplate, GgufLoader, LoadError, LoadOptions, SamplingDefaults, Tokenizer,
    TokenizerOptions,
};
use menagerie_model::{ModelError, WeightGuard};
use menagerie_registry::register;
use menagerie_spec::{ArchSpec, KeySource, MetadataValue, SourceFormat};
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

register!(FileFormat {
    name: "gguf",
    registered_by: env!("CARGO_PKG_NAME"),
    recognizes: is_gguf,
    open: |path, mmap| Ok(Arc::new(GgufModel::open(path, mmap)?)),
    bytes: GgufModel::part_bytes,
});

/// Whether a file begins with the magic of GGUF.
fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    // Opening a pipe would wait for its writer.
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == *b"GGUF"
}

/// A GGUF file, in one or several parts.
#[derive(Clone, Debug)]
pub struct GgufModel(GgufLoader);

impl GgufModel {
    /// Opens a file, with its other parts if it is the first of several.
    ///
    /// # Errors
    /// The container is damaged or cannot be read.
    pub fn open(path: impl AsRef<Path>, mmap: bool) -> Result<Self, LoadError> {
        let path = path.as_ref();
        GgufLoader::open(path, &LoadOptions::default().with_mmap(mmap)).map(Self)
    }

    /// Its metadata by canonical keys, which are the same for every spec.
    ///
    /// # Errors
    /// The file does not state its architecture.
    pub fn canonical_keys(&self) -> Result<Box<dyn KeySource>, LoadError> {
        Ok(Box::new(GgufKeys(self.0.canonical_keys()?)))
    }

    /// Bytes of the file and its other parts, without reading them.
    pub(crate) fn part_bytes(path: &Path) -> u64 {
        let sizes = GgufFile::part_paths(path).into_iter().filter_map(|part| std::fs::metadata(part).ok());
        sizes.map(|metadata| metadata.len()).sum()
    }
}

impl ModelFile for GgufModel {
    fn paths(&self) -> &[PathBuf] {
        self.0.file().paths()
    }

    fn format(&self) -> SourceFormat {
        SourceFormat::Gguf
    }

    fn name(&self) -> Option<&str> {
        self.0.model_name().filter(|name| !name.is_empty())
    }

    fn architecture(&self) -> Result<&str, LoadError> {
        self.0.architecture()
    }

    fn keys(&self, _spec: &ArchSpec) -> Result<Box<dyn KeySource>, LoadError> {
        self.canonical_keys()
    }

    fn tensors(&self, spec: Arc<ArchSpec>) -> Result<Arc<dyn ModelTensors>, LoadError> {
        Ok(Arc::new(GgufSource::new(Arc::clone(self.0.file()), spec)))
    }

    fn tokenizer(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, LoadError> {
        self.0.tokenizer(options)
    }

    fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, LoadError> {
        self.0.chat_template(tokenizer)
    }

    fn template_source(&self, name: &str) -> Result<Option<String>, LoadError> {
        Ok(self.0.chat_template_source(name)?.map(str::to_owned))
    }

    fn sampling_defaults(&self) -> Result<SamplingDefaults, LoadError> {
        self.0.sampling_defaults()
    }

    fn bytes(&self) -> u64 {
        self.0.file().file_bytes()
    }

    fn guard(&self) -> WeightGuard {
        let file = Arc::clone(self.0.file());
        Box::new(move || file.check_alive().map_err(|error| ModelError::Weights(error.to_string())))
    }
}

/// The metadata of a GGUF file, as specs read it.
struct GgufKeys(CanonicalKeys);

impl KeySource for GgufKeys {
    fn get(&self, canonical_key: &str) -> Option<MetadataValue> {
        self.0.get(canonical_key).map(key_value)
    }

    fn keys(&self) -> Vec<String> {
        self.0.own_keys().map(str::to_owned).collect()
    }

    fn foreign_keys(&self) -> Vec<String> {
        let metadata = self.0.file().metadata();
        let own: HashSet<String> = self.0.own_keys().map(|key| self.0.file_key(key)).collect();
        metadata.keys().filter(|key| !own.contains(*key)).map(str::to_owned).collect()
    }
}

fn key_value(value: Value) -> MetadataValue {
    match value {
        Value::Bool(flag) => MetadataValue::Bool(flag),
        Value::String(text) => MetadataValue::Text(text.to_owned()),
        Value::Array(array) => MetadataValue::List(array.values().map(key_value).collect()),
        Value::F32(number) => MetadataValue::Number(f64::from(number)),
        Value::F64(number) => MetadataValue::Number(number),
        // An integer beyond i64 becomes a number.
        integer => integer.as_i64().map_or_else(
            || MetadataValue::Number(integer.as_f64().unwrap_or(f64::NAN)),
            MetadataValue::Integer,
        ),
    }
}
