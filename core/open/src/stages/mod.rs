//! A model opened as stages: chains on threads, of processes and of stages elsewhere; and the process of a stage.

mod elsewhere;
mod identity;
mod library;
mod loaded_stage;
mod parts;
mod probe;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod serving;
mod threads;
mod whole;

pub(crate) use elsewhere::chain_elsewhere;
pub(crate) use loaded_stage::load_stage;
pub use loaded_stage::{ChainPlace, LoadedStage};
pub(crate) use probe::probe;
#[cfg(unix)]
pub(crate) use processes::chain_of_processes;
#[cfg(unix)]
pub(crate) use serving::serve_stage;
pub(crate) use threads::chain_of_threads;

use crate::error::LoadError;
use crate::options::{LoadOptions, WeightOptions};
use crate::request::LoadRequest;
use crate::stage_options::{StagePlace, StageStart};
use menagerie_assembly::StagePlan;
use menagerie_engine::GenerateError;
use menagerie_model::ModelError;
use menagerie_stages::{StageFault, StageName};
use std::ops::Range;

/// The fault of a stage that ended a generation, if any.
pub fn stage_fault(error: &GenerateError) -> Option<&StageFault> {
    match error {
        GenerateError::Model(ModelError::Stage(fault)) => fault.downcast_ref(),
        _ => None,
    }
}

/// Serves a stage: not supported without Unix sockets.
#[cfg(not(unix))]
pub(crate) fn serve_stage(
    name: &str,
    _request: impl FnOnce() -> Result<LoadRequest, LoadError>,
    _start: &StageStart,
) -> Result<(), LoadError> {
    let reason = "stages in processes need Unix sockets, which this system lacks".to_owned();
    Err(LoadError::Stages { file: name.to_owned(), reason })
}

/// Reports to the chain over standard input and output why this process cannot serve a stage.
///
/// # Errors
/// Standard input and output are not the links of a chain.
pub fn refuse_stage(start: &StageStart, reason: &str) -> Result<(), LoadError> {
    #[cfg(unix)]
    let refused = serving::refuse_stage(start, reason);
    #[cfg(not(unix))]
    let refused = Err("stages in processes need Unix sockets, which this system lacks");
    let file = format!("stage {}", start.index);
    refused.map_err(|error| LoadError::Stages { file, reason: format!("{reason} ({error})") })
}

/// Refuses stages in processes on a system without Unix sockets.
pub(crate) fn check(options: &LoadOptions) -> Result<(), LoadError> {
    if cfg!(not(unix)) && in_processes(options) && !are_elsewhere(options) {
        let reason = "stages in processes need Unix sockets, which this system lacks: use --stages";
        return Err(LoadError::Options(reason.to_owned()));
    }
    Ok(())
}

/// Whether the stages of the model run in other processes, which load their weights themselves.
pub(crate) fn in_processes(options: &LoadOptions) -> bool {
    let place = options.placement.stages.as_ref().map(|stages| &stages.place);
    matches!(place, Some(StagePlace::Processes(_) | StagePlace::Elsewhere(_)))
}

/// Whether the stages of the model may run on other machines, so that their memory does not count here.
pub(crate) fn are_elsewhere(options: &LoadOptions) -> bool {
    let place = options.placement.stages.as_ref().map(|stages| &stages.place);
    matches!(place, Some(StagePlace::Elsewhere(_)))
}

/// The request of a chain whose stages run in other processes: the model stays mapped, in the types of the file.
pub(crate) fn mapped(request: &LoadRequest) -> LoadRequest {
    let mut request = request.clone();
    let weights = WeightOptions { mmap: true, quantization: None, ..request.options.weights };
    request.options.weights = weights;
    request
}

/// Whether stages in other processes copy weights into memory instead of mapping them. Then a whole model beside them needs
/// memory too.
pub(crate) fn takes_copies(options: &LoadOptions) -> bool {
    !options.weights.mmap || options.weights.quantization.is_some()
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
