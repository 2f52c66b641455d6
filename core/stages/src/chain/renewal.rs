//! [`ChainRenewal`]: where a chain gets its links from.

use crate::identity::Identity;
use crate::source::PipelineSource;
use std::sync::Mutex;

/// Where a chain gets its links from, and what all of its stages must have in common.
pub(super) struct ChainRenewal {
    pub(super) source: Mutex<Box<dyn PipelineSource>>,
    pub(super) identity: Identity,
}
