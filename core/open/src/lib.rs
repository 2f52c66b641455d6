//! From a path to a pipeline: files, specs, weights, tokenizers, adapters, recipes, mixtures, stages and memory.
//!
//! [`open_text`] returns a language model, [`open_embedding`] a model that makes vectors of texts: a pipeline of
//! `menagerie-engine` with the file that it was opened from ([`LoadedModel`]).
//!
//! What is absent: file formats (`assembly::ModelFile` stands for them), steps and sampling (the engine), and anything that
//! prints.
#![forbid(unsafe_code)]

mod adapters;
mod config;
mod init;
mod loaded_model;
mod merge;
mod mixture;
mod stages;

pub use adapters::LoadedAdapters;
pub use config::{
    Beside, Device, DeviceLine, DeviceName, DeviceOptions, FilesOnly, GivenAdapter, GivenTemplate,
    Ingredients, KeyOptions, LoadOptions, LoadWrapper, Locate, devices, is_recipe,
};
pub use init::{
    LoadError, LoadProgress, LoadQuantization, MemoryEstimate, Notice, OpenedFile, ResolvedFile,
    available as available_memory, environment, open_embedding, open_embedding_with, open_text,
    open_text_with, size as byte_text, tokenizer_tables, total as total_memory,
};
pub use loaded_model::LoadedModel;
pub use menagerie_kernels::HalfPrompts;
pub use merge::{Merge, MergeProgress, MergedTensors};
pub use mixture::{
    GateExample, GateFile, GateRows, GateScore, GateTrainer, GateTrainingOptions, GivenExpert, GivenGate,
    GivenMixture, LayerGate,
};
pub use stages::{
    StageLauncher, StageOptions, StagePlace, StageProbe, StageSplit, StageStart, refuse_stage, serve_stage,
    stage_fault,
};
