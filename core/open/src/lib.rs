//! From a path to a pipeline: files, specs, weights, tokenizers, adapters, recipes, mixtures, stages and memory.
//!
//! [`open_text`] returns a language model, [`open_embedding`] a model that makes vectors of texts: a pipeline of
//! `menagerie-engine` with the file that it was opened from ([`LoadedModel`]).
//!
//! What is absent: file formats (`assembly::ModelFile` stands for them), steps and sampling (the engine), and anything that
//! prints.
#![forbid(unsafe_code)]

mod adapters;
mod device;
mod error;
mod fingerprint;
mod fitting;
mod in_memory;
mod keys;
mod loaded_model;
mod loading;
mod memory;
mod merge;
mod mixture;
mod mixture_options;
mod notice;
mod opened;
mod opening;
mod options;
mod quantization;
mod recipe;
mod resolved;
mod stage_options;
mod stages;
mod tables;
mod text;

pub use adapters::LoadedAdapters;
pub use device::{Device, DeviceLine, DeviceName, devices};
pub use error::LoadError;
pub use keys::KeyOptions;
pub use loaded_model::LoadedModel;
pub use loading::environment;
pub use memory::{MemoryEstimate, available as available_memory, size as byte_text, total as total_memory};
pub use merge::{Merge, MergeProgress, MergedTensors};
pub use mixture::{GateExample, GateFile, GateRows, GateScore, GateTrainer, GateTrainingOptions, LayerGate};
pub use mixture_options::{GivenExpert, GivenGate, GivenMixture};
pub use notice::Notice;
pub use opened::OpenedFile;
pub use opening::{open_embedding, open_embedding_with, open_text, open_text_with};
pub use options::{AdapterOption, GivenTemplate, LoadOptions, LoadWrapper};
pub use quantization::{LoadProgress, LoadQuantization};
pub use recipe::{FilesOnly, Ingredients, Locate, is_recipe};
pub use resolved::ResolvedFile;
pub use stage_options::{StageLauncher, StageOptions, StagePlace, StageProbe, StageSplit, StageStart};
pub use stages::{refuse_stage, serve_stage, stage_fault};
pub use tables::tokenizer_tables;
