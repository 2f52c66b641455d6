//! [`AssembleOptions`]: which part of a model to assemble, for which backend, with which wrappers.

use menagerie_model::{Compute, FeedForwardWrapper, LinearWrapper, SlotDeclarations, StagePosition};
use menagerie_registry::Components;
use std::ops::Range;

/// The purpose of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// As its spec says: logits, or vectors if it has no head.
    #[default]
    AsWritten,
    /// Vectors of texts; a head is ignored.
    Vectors,
}

/// Options of an assembly, besides config and weights.
#[derive(Clone)]
#[non_exhaustive]
pub struct AssembleOptions<'a> {
    /// The position of the part, which determines whether it has an embedding and a head.
    pub position: StagePosition,
    /// Its layers; absent = all.
    pub layers: Option<Range<usize>>,
    /// The backend of the model, and its arithmetic.
    pub compute: &'a Compute,
    /// The factories of kinds.
    pub components: &'a Components,
    /// The wrapper around every linear.
    pub wrapper: Option<&'a dyn LinearWrapper>,
    /// The wrapper around feed-forwards; the linears in those that it changes are not wrapped.
    pub feed_forwards: Option<&'a dyn FeedForwardWrapper>,
    /// The slots that previous stages declared. Absent: a stage of a model with slots is refused.
    pub slots: Option<SlotDeclarations>,
    /// The purpose of the model.
    pub purpose: Purpose,
}

impl<'a> AssembleOptions<'a> {
    /// The whole model without wrappers.
    pub fn whole(compute: &'a Compute, components: &'a Components) -> Self {
        Self {
            position: StagePosition::Only,
            layers: None,
            compute,
            components,
            wrapper: None,
            feed_forwards: None,
            slots: None,
            purpose: Purpose::AsWritten,
        }
    }

    /// The same for this purpose.
    pub fn with_purpose(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// A stage: these layers, with embedding and head as its position has them.
    pub fn stage(self, position: StagePosition, layers: Range<usize>) -> Self {
        Self { position, layers: Some(layers), ..self }
    }

    /// The same after stages that declared these slots.
    pub fn after(self, slots: SlotDeclarations) -> Self {
        Self { slots: Some(slots), ..self }
    }

    /// The same with `wrapper` around every linear.
    pub fn with_wrapper(self, wrapper: &'a dyn LinearWrapper) -> Self {
        Self { wrapper: Some(wrapper), ..self }
    }
}
