//! From a path to a pipeline: files, specs, weights, tokenizers, adapters, recipes, mixtures, stages and memory.
//!
//! [`ModelBuilder`] opens a model as a language model or for embeddings. The result is a pipeline of `menagerie-engine`
//! with the file that it was opened from ([`LoadedModel`]). The order of the work is: [`ModelSource`] (the files; a
//! recipe is resolved here and nowhere else), `loading` (the assembled model and its tokenizer), `opening` (the
//! pipeline).
//!
//! This crate knows no file formats (`assembly::ModelFile` represents them), no steps and no sampling (the engine does),
//! and prints nothing.
#![forbid(unsafe_code)]

mod adapters;
mod builder;
mod chat_template;
mod device;
mod error;
mod final_message;
mod fingerprint;
mod fitting;
mod in_memory;
mod keys;
mod loaded_model;
mod loading;
mod locate;
mod memory;
mod merge;
mod mixture;
mod mixture_option;
mod notice;
mod opened;
mod opening;
mod options;
mod quantization;
mod recipe;
mod request;
mod resolved;
mod source;
mod stage_options;
mod stages;
mod tables;
mod text;

pub use adapters::LoadedAdapters;
pub use builder::ModelBuilder;
pub use device::{Device, DeviceLine, DeviceName, devices};
pub use error::LoadError;
pub use keys::KeyOptions;
pub use loaded_model::LoadedModel;
pub use locate::Locate;
pub use memory::{MemoryEstimate, available as available_memory, size as byte_text, total as total_memory};
pub use merge::{Merge, MergedTensors};
pub use mixture::gate_file::{GateFile, LayerGate};
pub use mixture_option::{ExpertOption, GateOption, MixtureOption};
pub use notice::Notice;
pub use opened::OpenedFile;
pub use options::{
    AdapterOption, CompositionOptions, ContextOptions, LoadOptions, LoadQuantization, PlacementOptions,
    SpecOptions, TemplateSource, WeightOptions,
};
pub use recipe::{Ingredients, find_recipe, is_recipe};
pub use resolved::ResolvedFile;
pub use source::ModelSource;
pub use stage_options::{
    StageFinder, StageLauncher, StageOptions, StageOverlap, StagePlace, StageProbe, StageRestart, StageShare,
    StageSplit, StageStart, StageWish,
};
pub use stages::{ChainPlace, LoadedStage, refuse_stage, stage_fault};
pub use tables::tokenizer_tables;
