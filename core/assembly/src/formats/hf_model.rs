//! [`HfModel`]: a Hugging Face folder as a [`ModelFile`].

use super::FileFormat;
use super::hf_source::{HfTensors, set_numbers};
use super::hf_storage::HfStorage;
use super::model_file::{ModelFile, ModelTensors};
use menagerie_files::path_text;
use menagerie_loaders::{
    ChatTemplate, HfTexts, LoadError, SamplingDefaults, Shards, Tokenizer, TokenizerOptions,
};
use menagerie_model::{ModelError, WeightGuard};
use menagerie_registry::register;
use menagerie_spec::{ArchSpec, HfConfig, HfKeys, KeySource, SourceFormat, SpecFaults};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const CONFIG: &str = "config.json";

register!(FileFormat {
    name: "safetensors",
    registered_by: env!("CARGO_PKG_NAME"),
    recognizes: |path| HfModel::folder_of(path).is_some(),
    open: |path, mmap| Ok(Arc::new(HfModel::open(HfModel::folder_of(path).unwrap_or(path), mmap)?)),
    bytes: |path| Shards::bytes_on_disk(HfModel::folder_of(path).unwrap_or(path)),
});

/// A folder with config.json, safetensors files and a tokenizer, as the hub has them.
#[derive(Clone, Debug)]
pub struct HfModel {
    folder: PathBuf,
    /// The name of the folder.
    name: Option<String>,
    config: Arc<HfConfig>,
    class: String,
    storage: HfStorage,
    shards: Arc<Shards>,
    texts: Arc<HfTexts>,
}

impl HfModel {
    /// The folder of a path, if it is a model: the path itself, or the parent of its config.json or safetensors file.
    pub fn folder_of(path: &Path) -> Option<&Path> {
        let named = path
            .file_name()
            .is_some_and(|name| name == CONFIG || name == menagerie_loaders::SAFETENSORS_INDEX);
        let weights = path.extension().is_some_and(|extension| extension == "safetensors");
        match path.is_dir() {
            true => Some(path),
            false if named || weights => path
                .parent()
                .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder }),
            false => None,
        }
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// The folder has no valid config.json, or weights that cannot be read or are stored in an unsupported way.
    pub(crate) fn open(folder: impl AsRef<Path>, mmap: bool) -> Result<Self, LoadError> {
        let folder = folder.as_ref();
        let path = folder.join(CONFIG);
        let text = std::fs::read_to_string(&path).map_err(|error| no_model(folder, &path, &error))?;
        let config = HfConfig::parse(&path_text(&path), &text).map_err(faulty)?;
        let class = config.text_class().map_err(faulty)?.to_owned();
        let storage = HfStorage::of(&config).map_err(|problem| not_a_model(&path, problem))?;
        let shards = Arc::new(Shards::open(folder, mmap)?);
        let texts = Arc::new(HfTexts::open(folder)?);
        let whole = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        let name = whole.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Self { folder: folder.to_owned(), name, config: Arc::new(config), class, storage, shards, texts })
    }

    /// Its canonical keys, including those whose values are tensors.
    fn hf_keys(&self, spec: &ArchSpec) -> Result<HfKeys, LoadError> {
        let mut keys = spec.hf_keys(&self.config).map_err(faulty)?;
        let class = spec.hf_class_of(&self.config);
        let set = set_numbers(&mut keys, spec, &class, &self.shards);
        set.map_err(|problem| not_a_model(&self.folder, problem))?;
        Ok(keys)
    }
}

/// The error of a folder without a readable config.json.
fn no_model(folder: &Path, config: &Path, error: &std::io::Error) -> LoadError {
    if error.kind() != std::io::ErrorKind::NotFound {
        return not_a_model(config, error.to_string());
    }
    let has = |name: &str| folder.join(name).exists();
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(10_000)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.to_ascii_lowercase().ends_with(".gguf"))
        .collect();
    files.sort();
    files.truncate(5);
    let problem = if has("adapter_config.json") {
        "this is an adapter, not a model (adapter_config.json without config.json); open the model that it was trained on, \
         and pass the adapter with --lora"
            .to_owned()
    } else if !files.is_empty() {
        format!("is a directory; pass the file itself; this folder has {}", files.join(", "))
    } else if has("params.json") {
        "it has a params.json but no config.json: these are the original weights; get the files for transformers instead"
            .to_owned()
    } else {
        "it has no config.json; a model folder has a config.json and .safetensors files, as on the hub"
            .to_owned()
    };
    not_a_model(folder, problem)
}

fn not_a_model(path: &Path, problem: String) -> LoadError {
    LoadError::NotAModel { path: path_text(path), problem }
}

fn faulty(faults: SpecFaults) -> LoadError {
    LoadError::Config { faults: faults.to_string() }
}

impl ModelFile for HfModel {
    fn paths(&self) -> &[PathBuf] {
        self.shards.paths()
    }

    fn file(&self) -> String {
        path_text(&self.folder)
    }

    fn format(&self) -> SourceFormat {
        SourceFormat::Hf
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn architecture(&self) -> Result<&str, LoadError> {
        Ok(&self.class)
    }

    fn keys(&self, spec: &ArchSpec) -> Result<Box<dyn KeySource>, LoadError> {
        Ok(Box::new(self.hf_keys(spec)?))
    }

    fn tensors(&self, spec: Arc<ArchSpec>) -> Result<Arc<dyn ModelTensors>, LoadError> {
        let keys = self.hf_keys(&spec)?;
        let class = spec.hf_class_of(&self.config);
        let tensors = HfTensors::new(Arc::clone(&self.shards), &spec, &class, (&keys, &self.storage));
        let tensors = tensors.map_err(|problem| not_a_model(&self.folder, problem))?;
        Ok(Arc::new(tensors))
    }

    fn tokenizer(&self, options: &TokenizerOptions<'_>) -> Result<Tokenizer, LoadError> {
        self.texts.tokenizer(options)
    }

    fn chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>, LoadError> {
        self.texts.chat_template(tokenizer)
    }

    fn template_source(&self, name: &str) -> Result<Option<String>, LoadError> {
        Ok(self.texts.chat_template_source(name).map(str::to_owned))
    }

    fn sampling_defaults(&self) -> Result<SamplingDefaults, LoadError> {
        Ok(self.texts.sampling_defaults().clone())
    }

    fn bytes(&self) -> u64 {
        self.shards.file_bytes()
    }

    fn guard(&self) -> WeightGuard {
        let shards = Arc::clone(&self.shards);
        Box::new(move || shards.check_alive().map_err(|error| ModelError::Weights(error.to_string())))
    }
}
