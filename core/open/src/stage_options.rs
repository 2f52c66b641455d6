//! [`StageOptions`]: how a model is split into stages, and where they run.

mod finder;
mod start;

pub use finder::{StageFinder, StageShare, StageWish};
pub use start::{StageLauncher, StageStart};

use crate::error::LoadError;
use crate::resolved::ResolvedFile;
use menagerie_assembly::StagePlan;
use menagerie_engine::setters;
use menagerie_stages::ChainOptions;
use std::ops::Range;
use std::time::Duration;

/// How a model is split into stages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StageOptions {
    /// The layers of each stage.
    pub split: StageSplit,
    /// Where they run.
    pub place: StagePlace,
    /// Whether the split model is compared with the whole one before it is used.
    pub probe: StageProbe,
    /// The longest time that a step may take.
    pub deadline: Duration,
    /// How many steps are computed at the same time.
    pub overlap: StageOverlap,
    /// Whether the processes of stages are started again after one of them was lost.
    pub restart: StageRestart,
}

setters! { StageOptions:
    with_split(split: StageSplit),
    with_place(place: StagePlace),
    with_probe(probe: StageProbe),
    with_deadline(deadline: Duration),
    with_overlap(overlap: StageOverlap),
    with_restart(restart: StageRestart),
}

/// The layers of each stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageSplit {
    /// This number of stages; the largest has as few bytes of weights as possible.
    Count(usize),
    /// Stages with these layers.
    Layers(Vec<Range<usize>>),
}

/// Where stages run.
#[derive(Clone, Debug)]
pub enum StagePlace {
    /// On threads of this process, which share its thread pool.
    Threads,
    /// In other processes, which the launcher starts.
    Processes(StageLauncher),
    /// In processes that were started separately, perhaps on other machines; they determine the split.
    Elsewhere(StageFinder),
}

/// Whether a split model is compared with the whole model on a few tokens before it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageProbe {
    /// It is compared if the whole model needs no additional memory, because its weights are mapped.
    #[default]
    WhereWeightsAreMapped,
    /// It is not compared.
    Never,
}

/// How many steps the stages compute at the same time, each with a part of the running sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageOverlap {
    /// One for each stage, if the stages are on machines of their own, or if they are processes and this machine has cores for
    /// the threads of all of them; otherwise one. Stages that share cores compute a step of all sequences faster, because it reads the weights once.
    #[default]
    WhereStagesHaveCores,
    /// At most this number.
    Steps(usize),
}

impl StageOverlap {
    /// The most steps in flight over `stages` processes with `threads` threads each (`None`: as many as there are cores).
    pub(crate) fn of_processes(self, stages: usize, threads: Option<usize>) -> usize {
        match self {
            Self::Steps(steps) => steps,
            Self::WhereStagesHaveCores => {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let threads = threads.unwrap_or(cores).max(1);
                if stages.saturating_mul(threads) <= cores { stages } else { 1 }
            }
        }
    }

    /// The most steps in flight over stages on machines of their own; 0 for one per stage.
    pub(crate) fn of_machines(self) -> usize {
        match self {
            Self::Steps(steps) => steps,
            Self::WhereStagesHaveCores => 0,
        }
    }

    /// The most steps in flight over stages that are threads of this process.
    pub(crate) fn of_threads(self) -> usize {
        match self {
            Self::Steps(steps) => steps,
            Self::WhereStagesHaveCores => 1,
        }
    }
}

/// Whether the processes of stages are started again after one of them was lost: it died, or has not answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StageRestart {
    /// All of them are, so that answers continue: their states are computed again.
    #[default]
    WhenLost,
    /// They are not: the model must be opened again.
    Never,
}

impl StageOptions {
    /// This number of stages.
    pub fn count(stages: usize) -> Self {
        Self {
            split: StageSplit::Count(stages),
            place: StagePlace::Threads,
            probe: StageProbe::default(),
            deadline: ChainOptions::default().deadline,
            overlap: StageOverlap::default(),
            restart: StageRestart::default(),
        }
    }

    /// Stages with these layers.
    pub fn layers(stages: Vec<Range<usize>>) -> Self {
        Self { split: StageSplit::Layers(stages), ..Self::count(0) }
    }

    /// The same stages in processes that `launcher` starts.
    pub fn in_processes(self, launcher: StageLauncher) -> Self {
        Self { place: StagePlace::Processes(launcher), ..self }
    }

    /// Stages that were started separately.
    pub fn elsewhere(finder: StageFinder) -> Self {
        Self { place: StagePlace::Elsewhere(finder), probe: StageProbe::Never, ..Self::count(1) }
    }

    /// The layers of each stage of a model, if this process determines them.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub(crate) fn own_plan(&self, resolved: &ResolvedFile) -> Result<Option<StagePlan>, LoadError> {
        match self.place {
            StagePlace::Elsewhere(_) => Ok(None),
            StagePlace::Threads | StagePlace::Processes(_) => self.plan(resolved).map(Some),
        }
    }

    /// The layers of each stage of a model.
    ///
    /// # Errors
    /// The model cannot be split in this way.
    pub(crate) fn plan(&self, resolved: &ResolvedFile) -> Result<StagePlan, LoadError> {
        let plan = match &self.split {
            StageSplit::Count(count) => StagePlan::by_bytes(resolved.config(), &*resolved.tensors, *count),
            StageSplit::Layers(ranges) => StagePlan::given(resolved.config(), ranges.clone()),
        };
        plan.map_err(|error| LoadError::Stages { file: resolved.file_name(), reason: error.to_string() })
    }

    /// The options of the chain.
    pub(crate) fn chain(&self) -> ChainOptions {
        ChainOptions::default().with_deadline(self.deadline)
    }
}
