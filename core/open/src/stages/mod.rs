//! A model opened as stages: chains on threads and of processes, and the process of a stage.

mod identity;
mod library;
mod probe;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod serving;
mod threads;

pub(crate) use probe::probe;
#[cfg(unix)]
pub(crate) use processes::chain_of_processes;
#[cfg(unix)]
pub use serving::{refuse_stage, serve_stage};
pub(crate) use threads::chain_of_threads;

use crate::error::LoadError;
use crate::options::LoadOptions;
use crate::stage_options::StagePlace;
#[cfg(not(unix))]
use crate::stage_options::StageStart;
use menagerie_assembly::StagePlan;
use menagerie_engine::GenerateError;
use menagerie_model::ModelError;
use menagerie_stages::{StageFault, StageName};
use std::ops::Range;

/// The fault of a stage that ended a generation, if one did.
pub fn stage_fault(error: &GenerateError) -> Option<&StageFault> {
    match error {
        GenerateError::Model(ModelError::Stage(fault)) => fault.downcast_ref(),
        _ => None,
    }
}

/// Serves a stage: not on this system, which lacks Unix sockets.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub fn serve_stage(
    path: impl AsRef<std::path::Path>,
    _environment: &menagerie_registry::Environment,
    _options: &LoadOptions,
    _start: &StageStart,
) -> Result<(), LoadError> {
    let reason = "stages in processes need Unix sockets, which this system lacks".to_owned();
    Err(LoadError::Stages { file: path.as_ref().display().to_string(), reason })
}

/// Says why a process is no stage: not on this system, which lacks Unix sockets.
///
/// # Errors
/// Always.
#[cfg(not(unix))]
pub fn refuse_stage(_start: &StageStart, reason: &str) -> Result<(), LoadError> {
    let reason = format!("{reason} (and stages in processes need Unix sockets, which this system lacks)");
    Err(LoadError::Stages { file: "a stage".to_owned(), reason })
}

/// Refuses what this system does not have.
///
/// # Errors
/// Stages in processes where there are no Unix sockets.
pub(crate) fn check(options: &LoadOptions) -> Result<(), LoadError> {
    if cfg!(not(unix)) && in_processes(options) {
        let reason = "stages in processes need Unix sockets, which this system lacks: use --stages";
        return Err(LoadError::Options(reason.to_owned()));
    }
    Ok(())
}

/// Whether the stages of the model are processes of their own, which take its weights in themselves.
pub(crate) fn in_processes(options: &LoadOptions) -> bool {
    options.stages.as_ref().is_some_and(|stages| matches!(stages.place, StagePlace::Processes(_)))
}

/// How the process that has the chain looks at the model that its stages take in: mapped, in the types of the file.
pub(crate) fn looking(options: &LoadOptions) -> LoadOptions {
    LoadOptions { mmap: true, quantization: None, ..options.clone() }
}

/// Whether stages in processes have weights in memory of their own instead of mapping them: there is no whole model then
/// that costs nothing.
pub(crate) fn takes_copies(options: &LoadOptions) -> bool {
    !options.mmap || options.quantization.is_some()
}

/// The names of the stages of a plan.
pub(crate) fn names(plan: &StagePlan) -> Vec<StageName> {
    let name = |(index, layers): (usize, &Range<usize>)| StageName {
        index: index as u16,
        first: layers.start as u32,
        end: layers.end as u32,
    };
    plan.stages().iter().enumerate().map(name).collect()
}
