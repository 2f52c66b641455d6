//! [`StageFinder`]: finds stages that were started separately.

use menagerie_stages::{Identity, PipelineSource};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What a chain needs from stages that were started separately.
#[derive(Clone, Debug)]
pub struct StageWish {
    /// The file of the model.
    pub file: String,
    /// What all stages must have in common with the chain.
    pub identity: Identity,
    /// Layers of the model.
    pub layers: usize,
    /// Most unacknowledged frames on a link.
    pub credits: usize,
}

type Find = dyn Fn(StageWish) -> Result<Box<dyn PipelineSource>, String> + Send + Sync;

/// Finds stages that were started separately: returns where the links to them come from, or why it cannot.
#[derive(Clone)]
pub struct StageFinder(pub Arc<Find>);

impl fmt::Debug for StageFinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StageFinder")
    }
}

/// The share of a model that a separately started process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageShare {
    /// These layers.
    Layers(Range<usize>),
    /// One of several parts with as equal bytes of weights as possible.
    Part {
        /// The number of the part, from 0.
        index: usize,
        /// The number of all parts.
        of: usize,
    },
}
