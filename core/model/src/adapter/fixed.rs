//! [`AdaptedFeedForward`]: a feed-forward on which one adapter set always acts.

use crate::Result;
use crate::adapter_set::AdapterSet;
use crate::context::TransformContext;
use crate::rows::Rows;
use crate::traits::{FeedForward, Raw};
use std::sync::Arc;

/// A feed-forward whose linears have their own sites, and the set that acts there, whatever sets its sequences have: an
/// expert that is a model with an adapter.
pub struct AdaptedFeedForward {
    part: Box<dyn FeedForward>,
    sets: [Arc<AdapterSet>; 1],
}

impl AdaptedFeedForward {
    /// The numbers of `set` are those of the sites that `part` was assembled with.
    pub fn new(part: Box<dyn FeedForward>, set: Arc<AdapterSet>) -> Self {
        Self { part, sets: [set] }
    }
}

impl FeedForward for AdaptedFeedForward {
    fn forward(&self, x: &Rows, raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        let layout = context.layout.with_adapters(Some(0));
        let layer = context.layer;
        let mut pass = TransformContext { adapters: &self.sets, layer, ..context.pass(&layout) };
        self.part.forward(x, raw, &mut pass)
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.part.company_dependent()
    }
}
