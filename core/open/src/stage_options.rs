//! [`StageOptions`]: how a model is split into stages, and where they run.

mod start;

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
