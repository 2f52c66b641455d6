//! [`PipelineSource`]: gives a chain the links to a complete pipeline, at the start and after a stage was lost.

use crate::fault::{StageFault, StageName};
use crate::transport::PipelineTransport;
use menagerie_model::Cancellation;
use std::time::Instant;

/// The chain's end of the links to a complete pipeline.
pub struct PipelineLinks {
    /// The links. Nothing was sent over them: the first frame has number 0 in both directions.
    pub transport: Box<dyn PipelineTransport>,
    /// The stages, in order; together they have all layers.
    pub names: Vec<StageName>,
}

/// What a chain needs from its source.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PipelineDemand<'a> {
    /// Until then the links are needed.
    pub by: Instant,
    /// The fault that ended the previous pipeline; absent at the start.
    pub lost: Option<&'a StageFault>,
    /// Set once the links are not needed any more.
    pub cancelled: Cancellation<'a>,
}

impl<'a> PipelineDemand<'a> {
    /// A demand for the first pipeline of a chain.
    pub(crate) fn first(by: Instant) -> Self {
        Self { by, lost: None, cancelled: Cancellation::default() }
    }

    /// A demand for another pipeline after a fault.
    pub(crate) fn after(lost: &'a StageFault, by: Instant, cancelled: Cancellation<'a>) -> Self {
        Self { by, lost: Some(lost), cancelled }
    }
}

/// Where the stages of a chain come from: processes that it starts, or nodes that announce themselves.
///
/// Each pipeline is a new one for its stages: they begin with empty states, and frames of an earlier pipeline must not
/// arrive over the new links. Its stages may have other ranges of layers than before. The chain compares their identities
/// itself.
pub trait PipelineSource: Send {
    /// Links to a complete pipeline. The links of the previous one are closed already. The chain repeats a call that failed
    /// a few times, with pauses between, unless the fault is [`crate::FaultKind::Refused`].
    ///
    /// # Errors
    /// No pipeline is complete until then, or the demand was cancelled; the fault names a stage that is missing.
    fn connect(&mut self, demand: &PipelineDemand) -> Result<PipelineLinks, StageFault>;
}
