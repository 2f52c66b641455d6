//! [`AssembleOptions`]: which part of a model to assemble, for which backend, with what around its linears and
//! feed-forwards.

use menagerie_model::{Compute, FeedForwardWrapper, LinearWrapper, SlotDeclarations, StagePosition};
use menagerie_registry::Components;
use std::ops::Range;

/// What a model is assembled for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Purpose {
    /// What its spec says: logits, or vectors where it has no head.
    #[default]
    AsWritten,
    /// Vectors of texts; a head is left out.
    Vectors,
}

/// What an assembly is told beside config and weights.
#[derive(Clone)]
#[non_exhaustive]
pub struct AssembleOptions<'a> {
    /// Where the part lies; says whether it has an embedding and a head.
    pub position: StagePosition,
    /// Its layers; absent = all.
    pub layers: Option<Range<usize>>,
    /// The backend that takes the weights in, and how products will be computed.
    pub compute: &'a Compute,
    /// The factories of kinds.
    pub components: &'a Components,
    /// What is put around every linear.
    pub wrapper: Option<&'a dyn LinearWrapper>,
    /// What is put around feed-forwards; the linears of those it changes get no wrapper.
    pub feed_forwards: Option<&'a dyn FeedForwardWrapper>,
    /// Slots that the stages before this one declared; absent: a stage of a model that has any is refused.
    pub slots: Option<SlotDeclarations>,
    /// What the model is for.
    pub purpose: Purpose,
}

impl<'a> AssembleOptions<'a> {
    /// The whole model, nothing around its linears.
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

    /// For this purpose.
    pub fn with_purpose(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// A stage: these layers, with the ends that its position has.
    pub fn stage(self, position: StagePosition, layers: Range<usize>) -> Self {
        Self { position, layers: Some(layers), ..self }
    }

    /// After stages that declared these slots.
    pub fn after(self, slots: SlotDeclarations) -> Self {
        Self { slots: Some(slots), ..self }
    }

    /// With `wrapper` around every linear.
    pub fn with_wrapper(self, wrapper: &'a dyn LinearWrapper) -> Self {
        Self { wrapper: Some(wrapper), ..self }
    }
}
