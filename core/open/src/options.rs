//! [`LoadOptions`]: how a model is loaded, by subject.

mod composition;
mod quantization;
mod specs;

pub use composition::{AdapterOption, CompositionOptions};
pub use quantization::LoadQuantization;
pub use specs::SpecOptions;

use crate::device::Device;
use crate::keys::KeyOptions;
use crate::mixture_option::MixtureOption;
use crate::stage_options::StageOptions;
use menagerie_engine::{DEFAULT_CHUNK, setters};
use menagerie_model::{Arithmetic, KvType};
use menagerie_spec::MetadataValue;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How a model is loaded, by subject. Each option has a default and a method that sets it; [`Self::with_context`] sets the
/// tokens of the context.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LoadOptions {
    /// The weights: where they are kept, and how they are multiplied.
    pub weights: WeightOptions,
    /// The context: its length, and the memory for it.
    pub context: ContextOptions,
    /// Where the model computes.
    pub placement: PlacementOptions,
    /// The folders that specs are read from.
    pub specs: SpecOptions,
    /// The metadata keys of the file.
    pub keys: KeyOptions,
    /// A chat template that replaces the model's.
    pub chat_template: Option<TemplateSource>,
    /// What is combined with the base model. A recipe adds its own.
    pub composition: CompositionOptions,
}

/// Where weights are kept, and how they are multiplied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WeightOptions {
    /// Whether weights stay in the mapped file (the default); otherwise they are read into memory.
    pub mmap: bool,
    /// `Fast` (the default) multiplies quantized weights by quantized activations, `Exact` computes in f32.
    pub arithmetic: Arithmetic,
    /// The type of cached keys and values. `None`: f32 with `Exact` and for files with F32 weights, else f16.
    pub kv_type: Option<KvType>,
    /// Other types for the weights than the file has, applied while they are loaded. `None`: the types of the file.
    pub quantization: Option<LoadQuantization>,
}

impl Default for WeightOptions {
    fn default() -> Self {
        Self { mmap: true, arithmetic: Arithmetic::Fast, kv_type: None, quantization: None }
    }
}

/// The length of the context, and the memory for it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContextOptions {
    /// Tokens of the context. `None`: the training context, at most [`menagerie_engine::DEFAULT_CONTEXT`] and what fits
    /// into memory.
    pub tokens: Option<usize>,
    /// The most tokens of a prompt that are computed in one step; [`menagerie_engine::DEFAULT_CHUNK`] by default.
    pub chunk: usize,
    /// Bytes of memory that may be used. `None`: what the device or the system reports as free.
    pub memory_limit: Option<u64>,
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self { tokens: None, chunk: DEFAULT_CHUNK, memory_limit: None }
    }
}

/// Where a model computes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PlacementOptions {
    /// The device; the CPU by default.
    pub device: Device,
    /// Threads of the CPU. `None`: the cores that the process may use.
    pub threads: Option<usize>,
    /// How the model is split into stages. `None`: it is not split.
    pub stages: Option<StageOptions>,
}

/// A chat template that did not come with the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateSource {
    /// Its name in messages, for instance that of its file.
    pub name: String,
    /// Its text (Jinja).
    pub source: String,
}

setters! { LoadOptions:
    with_weights(weights: WeightOptions),
    with_placement(placement: PlacementOptions),
    with_specs(specs: SpecOptions),
    with_keys(keys: KeyOptions),
    with_chat_template(chat_template: impl Into<Option<TemplateSource>>),
    with_composition(composition: CompositionOptions),
}

setters! { WeightOptions:
    with_mmap(mmap: bool),
    with_arithmetic(arithmetic: Arithmetic),
    with_kv_type(kv_type: impl Into<Option<KvType>>),
    with_quantization(quantization: impl Into<Option<LoadQuantization>>),
}

setters! { ContextOptions:
    with_tokens(tokens: impl Into<Option<usize>>),
    with_chunk(chunk: usize),
    with_memory_limit(memory_limit: impl Into<Option<u64>>),
}

setters! { PlacementOptions:
    with_device(device: Device),
    with_threads(threads: impl Into<Option<usize>>),
    with_stages(stages: impl Into<Option<StageOptions>>),
}

/// Writes a method for each option of a subject: `with_option(subject.option: type)`.
macro_rules! option_setters {
    ($($with:ident($subject:ident.$option:ident: $type:ty),)+) => {
        impl LoadOptions {
            $(
                #[doc = concat!("The same options with this `", stringify!($subject.$option), "`.")]
                #[must_use]
                pub fn $with(mut self, $option: $type) -> Self {
                    self.$subject.$option = $option.into();
                    self
                }
            )+
        }
    };
}

option_setters! {
    with_mmap(weights.mmap: bool),
    with_arithmetic(weights.arithmetic: Arithmetic),
    with_kv_type(weights.kv_type: impl Into<Option<KvType>>),
    with_quantization(weights.quantization: impl Into<Option<LoadQuantization>>),
    with_context(context.tokens: impl Into<Option<usize>>),
    with_chunk(context.chunk: usize),
    with_memory_limit(context.memory_limit: impl Into<Option<u64>>),
    with_device(placement.device: Device),
    with_threads(placement.threads: impl Into<Option<usize>>),
    with_stages(placement.stages: impl Into<Option<StageOptions>>),
    with_spec_dirs(specs.folders: Vec<PathBuf>),
    with_allow_shadow(specs.allow_shadow: bool),
    with_accept_unread(keys.accept_unread: Vec<String>),
    with_set(keys.set: BTreeMap<String, MetadataValue>),
    with_nextn(keys.nextn: bool),
    with_adapters(composition.adapters: Vec<AdapterOption>),
    with_mixture(composition.mixture: impl Into<Option<MixtureOption>>),
}

impl LoadOptions {
    /// The files that change what the model computes: an X-LoRA, the experts and the gate of a mixture, an importance
    /// matrix. LoRA adapters are left out, because they are loaded and unloaded while the model is open.
    pub(crate) fn changing_files(&self) -> Vec<PathBuf> {
        let mut files = self.composition.changing_files();
        let importance = self.weights.quantization.as_ref().and_then(|one| one.importance.as_ref());
        files.extend(importance.map(|(name, _)| PathBuf::from(name)));
        files
    }
}
