//! [`StageOptions`]: a model opened as stages.

mod identity;
mod library;
mod probe;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod serving;
mod start;
mod threads;

pub(crate) use probe::probe;
#[cfg(unix)]
pub(crate) use processes::chain_of_processes;
#[cfg(unix)]
pub use serving::{refuse_stage, serve_stage};
pub use start::{StageLauncher, StageStart};
pub(crate) use threads::chain_of_threads;

use crate::config::LoadOptions;
use crate::init::{LoadError, ResolvedFile};
use menagerie_assembly::{Assembly, ModelTensors, StagePlan};
use menagerie_engine::{GenerateError, setters};
use menagerie_model::ModelError;
use menagerie_stages::{ChainOptions, StageFault, StageName};
use std::collections::HashSet;
use std::ops::Range;
use std::time::Duration;

/// The fault of a stage that ended a generation, if one did.
pub fn stage_fault(error: &GenerateError) -> Option<&StageFault> {
    match error {
        GenerateError::Model(ModelError::Stage(fault)) => fault.downcast_ref(),
        _ => None,
    }
}

/// How a model is split into stages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StageOptions {
    /// Which layers each stage has.
    pub split: StageSplit,
    /// Where they run.
    pub place: StagePlace,
    /// Whether the split model is compared with the whole one before it is used.
    pub probe: StageProbe,
    /// Longest time that a step may take.
    pub deadline: Duration,
}

setters! { StageOptions:
    with_split(split: StageSplit),
    with_place(place: StagePlace),
    with_probe(probe: StageProbe),
    with_deadline(deadline: Duration),
}

/// Which layers each stage has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageSplit {
    /// So many stages, such that the largest has as few bytes of weights as can be.
    Count(usize),
    /// These.
    Layers(Vec<Range<usize>>),
}

/// Where stages run.
#[derive(Clone, Debug)]
pub enum StagePlace {
    /// On threads of this process, over its one pool of threads.
    Threads,
    /// In processes of their own, which this starts.
    Processes(StageLauncher),
}

/// Whether a split model is compared with the whole one on a few tokens before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageProbe {
    /// It is, where the whole one takes no memory of its own (its weights are mapped).
    #[default]
    WhereWeightsAreMapped,
    /// It is not.
    Never,
}

impl StageOptions {
    /// So many stages.
    pub fn count(stages: usize) -> Self {
        Self {
            split: StageSplit::Count(stages),
            place: StagePlace::Threads,
            probe: StageProbe::default(),
            deadline: ChainOptions::default().deadline,
        }
    }

    /// Stages of these layers.
    pub fn layers(stages: Vec<Range<usize>>) -> Self {
        Self { split: StageSplit::Layers(stages), ..Self::count(0) }
    }

    /// In processes that `launcher` starts.
    pub fn in_processes(self, launcher: StageLauncher) -> Self {
        Self { place: StagePlace::Processes(launcher), ..self }
    }

    /// The layers of each stage in a file.
    ///
    /// # Errors
    /// A model that cannot be split so.
    pub fn plan(&self, resolved: &ResolvedFile) -> Result<StagePlan, LoadError> {
        let plan = match &self.split {
            StageSplit::Count(count) => StagePlan::by_bytes(resolved.config(), &*resolved.tensors, *count),
            StageSplit::Layers(ranges) => StagePlan::given(resolved.config(), ranges.clone()),
        };
        plan.map_err(|error| LoadError::Stages { file: resolved.file_name(), reason: error.to_string() })
    }

    /// How the chain waits.
    pub(crate) fn chain(&self) -> ChainOptions {
        ChainOptions::default().with_deadline(self.deadline)
    }
}

/// What was assembled of a model.
pub(crate) enum Made {
    /// All in one.
    Whole(Assembly),
    /// Its stages, and perhaps the whole to compare with.
    Split {
        /// In order; none where they are in processes of their own.
        stages: Vec<Assembly>,
        /// The whole model.
        whole: Option<Assembly>,
    },
}

impl Made {
    /// Whether every tensor that was taken is F32, as these tensors have it: stages in processes have other types with
    /// `--quant` than those that the whole is known by here.
    pub(crate) fn is_f32(&self, tensors: &dyn ModelTensors) -> bool {
        let others = tensors.entries().iter().filter(|tensor| tensor.kind != "F32");
        let others: HashSet<&str> = others.map(|tensor| tensor.name.as_str()).collect();
        let is_f32 = |assembly: &Assembly| {
            assembly.claims.iter().all(|claim| !others.contains(claim.tensor.name.as_str()))
        };
        match self {
            Self::Whole(assembly) => is_f32(assembly),
            Self::Split { stages, whole } => stages.iter().chain(whole).all(is_f32),
        }
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
