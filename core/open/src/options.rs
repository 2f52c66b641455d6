//! [`LoadOptions`]: how a model file is opened.

use crate::device::Device;
use crate::keys::KeyOptions;
use crate::mixture_options::{GivenExpert, GivenGate, GivenMixture};
use crate::opened::OpenedFile;
use crate::quantization::LoadQuantization;
use crate::stage_options::StageOptions;
use menagerie_engine::{DEFAULT_CHUNK, setters};
use menagerie_model::{Arithmetic, KvType, LinearWrapper};
use menagerie_spec::{AdapterKind, ArchSpec, MetadataValue};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a model file is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Whether weights stay mapped; otherwise they are read into memory.
    pub mmap: bool,
    /// `fast` (quantized weights times quantized activations) or `exact` (f32).
    pub arithmetic: Arithmetic,
    /// How keys and values are stored; absent = f32 for `exact` and for files with F32 weights, else f16.
    pub kv_type: Option<KvType>,
    /// Tokens of the context; absent = as trained, at most [`menagerie_engine::DEFAULT_CONTEXT`] and what fits into memory.
    pub context: Option<usize>,
    /// Most tokens of a prompt computed in one step.
    pub chunk: usize,
    /// Where to compute.
    pub device: Device,
    /// Threads of the CPU; absent = what the process may use.
    pub threads: Option<usize>,
    /// Spec folders asked for (`--spec-dir`); the environment's, the user's and the project's are added.
    pub spec_dirs: Vec<PathBuf>,
    /// Whether a file in a spec folder may replace a spec of the same id.
    pub allow_shadow: bool,
    /// Metadata keys accepted although nothing understands them.
    pub accept_unread: Vec<String>,
    /// Canonical keys set by hand (`--set`, recipes), laid over the file's.
    pub set: BTreeMap<String, MetadataValue>,
    /// Adapters put around the model's linears.
    pub adapters: Vec<AdapterOption>,
    /// What the model's feed-forwards become.
    pub mixture: Option<GivenMixture>,
    /// Names of the recipes that these options are from, outermost first.
    pub recipes: Vec<String>,
    /// Bytes that may be used, instead of what the device or the system says is free.
    pub memory_limit: Option<u64>,
    /// A chat template to use instead of the file's.
    pub chat_template: Option<GivenTemplate>,
    /// Other types for the weights than the file has.
    pub quantization: Option<LoadQuantization>,
    /// Stages that compute the model, instead of one piece.
    pub stages: Option<StageOptions>,
    /// What is put around every linear.
    pub wrapper: Option<LoadWrapper>,
    /// A model that another pipeline has open with the same options: where it is this one, its file and its weights are used.
    pub opened: Option<OpenedFile>,
}

setters! { LoadOptions:
    with_mmap(mmap: bool),
    with_arithmetic(arithmetic: Arithmetic),
    with_kv_type(kv_type: impl Into<Option<KvType>>),
    with_context(context: impl Into<Option<usize>>),
    with_chunk(chunk: usize),
    with_device(device: Device),
    with_threads(threads: impl Into<Option<usize>>),
    with_spec_dirs(spec_dirs: Vec<PathBuf>),
    with_allow_shadow(allow_shadow: bool),
    with_accept_unread(accept_unread: Vec<String>),
    with_set(set: BTreeMap<String, MetadataValue>),
    with_adapters(adapters: Vec<AdapterOption>),
    with_mixture(mixture: impl Into<Option<GivenMixture>>),
    with_recipes(recipes: Vec<String>),
    with_memory_limit(memory_limit: impl Into<Option<u64>>),
    with_chat_template(chat_template: impl Into<Option<GivenTemplate>>),
    with_quantization(quantization: impl Into<Option<LoadQuantization>>),
    with_stages(stages: impl Into<Option<StageOptions>>),
    with_wrapper(wrapper: impl Into<Option<LoadWrapper>>),
    with_opened(opened: impl Into<Option<OpenedFile>>),
}

/// Gives what is put around the linears of a model of a spec.
type MakeWrapper = dyn Fn(&Arc<ArchSpec>) -> Arc<dyn LinearWrapper> + Send + Sync;

/// Makes what is put around the linears of a model, for the spec that it was resolved with.
#[derive(Clone)]
pub struct LoadWrapper(pub Arc<MakeWrapper>);

impl fmt::Debug for LoadWrapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoadWrapper")
    }
}

/// An adapter that a model is opened with.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterOption {
    /// Which method it is of.
    pub kind: AdapterKind,
    /// Its file or folder.
    pub path: PathBuf,
    /// What its output is multiplied by; an X-LoRA has its own.
    pub weight: f32,
}

/// A chat template that did not come with the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenTemplate {
    /// What messages call it: the file it is from, say.
    pub name: String,
    /// Its text, Jinja.
    pub source: String,
}

impl LoadOptions {
    /// The folder of the X-LoRA that is asked for.
    pub(crate) fn xlora(&self) -> Option<&Path> {
        let given = self.adapters.iter().find(|adapter| adapter.kind == AdapterKind::XLora);
        given.map(|adapter| adapter.path.as_path())
    }

    /// Options that change the model beside its own files.
    pub(crate) fn overrides(&self) -> Vec<PathBuf> {
        let xlora = self.adapters.iter().filter(|one| one.kind == AdapterKind::XLora);
        let mut files: Vec<PathBuf> = xlora.map(|one| one.path.clone()).collect();
        if let Some(mixture) = &self.mixture {
            files.extend(mixture.experts.iter().map(|expert| match expert {
                GivenExpert::Model(path) | GivenExpert::Adapter { path, .. } => path.clone(),
            }));
            if let GivenGate::File(path) = &mixture.gate {
                files.push(path.clone());
            }
        }
        let importance = self.quantization.as_ref().and_then(|quantization| quantization.importance.as_ref());
        files.extend(importance.map(|(name, _)| PathBuf::from(name)));
        files
    }

    /// What of them is about keys.
    pub fn keys(&self) -> KeyOptions {
        KeyOptions { accept_unread: self.accept_unread.clone(), set: self.set.clone() }
    }
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            mmap: true,
            arithmetic: Arithmetic::Fast,
            kv_type: None,
            context: None,
            chunk: DEFAULT_CHUNK,
            device: Device::default(),
            threads: None,
            spec_dirs: Vec::new(),
            allow_shadow: false,
            accept_unread: Vec::new(),
            set: BTreeMap::new(),
            adapters: Vec::new(),
            mixture: None,
            recipes: Vec::new(),
            memory_limit: None,
            chat_template: None,
            quantization: None,
            stages: None,
            wrapper: None,
            opened: None,
        }
    }
}
