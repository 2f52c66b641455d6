//! Hooks into a forward: [`LayerHook`] around layers, [`Checkpoint`] inside a block. [`crate::Hooks`] calls them.

use crate::Result;
use crate::compute::Compute;
use crate::layout::SequenceLayout;
use crate::rows::Rows;
use crate::scalings::Scalings;
use crate::serializable_hook::SerializableHook;
use crate::step::InferenceStep;
use std::ops::Range;

/// A named place inside a block where a hook may look; ids, no strings at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Checkpoint {
    /// The mixer branch, before it is added.
    AttnOut,
    /// The first feed-forward branch, before it is added.
    FfnOut,
    /// The second feed-forward branch, before it is added.
    LastOut,
    /// The stream after the block and its hooks: what the next layer gets (`l_out` in llama.cpp).
    LayerOut,
}

impl Checkpoint {
    /// All of them, in the order a layer passes them.
    pub const ALL: [Self; 4] = [Self::AttnOut, Self::FfnOut, Self::LastOut, Self::LayerOut];

    /// llama.cpp's name of the place, without the layer.
    pub fn name(self) -> &'static str {
        match self {
            Self::AttnOut => "attn_out",
            Self::FfnOut => "ffn_out",
            Self::LastOut => "last_out",
            Self::LayerOut => "l_out",
        }
    }

    /// The place of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }
}

/// For which steps of a sequence a hook is called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phases {
    /// All.
    #[default]
    All,
    /// While its prompt is computed.
    Prefill,
    /// While what was generated is fed back.
    Decode,
}

impl Phases {
    /// Whether a step is one of them.
    pub fn cover(self, step: &InferenceStep) -> bool {
        match (self, step) {
            (Self::All, _)
            | (Self::Prefill, InferenceStep::Prefill { .. })
            | (Self::Decode, InferenceStep::Decode { .. }) => true,
            (Self::Prefill, InferenceStep::Decode { .. }) | (Self::Decode, InferenceStep::Prefill { .. }) => {
                false
            }
        }
    }
}

/// What a hook does to the rows it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it only observes. Returned rows are an error.
    #[default]
    Observes,
    /// It may replace them. Hooks of equal texts make the same of the same rows, so that state which was computed with
    /// one may be kept for the other.
    Replaces(String),
}

/// What a hook is shown: rows of the sequences whose step is one of its phases.
#[derive(Clone, Copy)]
pub struct HookInput<'a> {
    /// The layer, 0-based as in `blk.N`.
    pub layer: usize,
    /// The rows `[T, D]`.
    pub rows: &'a Rows,
    /// Which of them belong to which sequence.
    pub layout: &'a SequenceLayout,
    /// Ids of the rows' tokens, `[T]`; absent where rows were given in the place of embedded tokens.
    pub tokens: Option<&'a [u32]>,
    /// Where they were computed, and how.
    pub compute: &'a Compute,
}

/// Looks at, or replaces, the hidden rows around layers. Honored by the container of the layers, not by a model.
///
/// Name, layers, phases and effect are asked once, when it joins [`crate::Hooks`].
pub trait LayerHook: Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// The layers that it is called for.
    fn layers(&self) -> Range<usize>;

    /// The steps that it is called for; in a step of several sequences it gets the rows of those that match.
    fn phases(&self) -> Phases {
        Phases::All
    }

    /// Whether it replaces rows.
    fn effect(&self) -> Effect {
        Effect::Observes
    }

    /// Before a layer: `Some` replaces the rows `[T, D]`.
    ///
    /// # Errors
    /// An error ends the forward.
    fn before_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        let _ = shown;
        Ok(None)
    }

    /// After a layer: `Some` replaces the rows `[T, D]`.
    ///
    /// # Errors
    /// An error ends the forward.
    fn after_layer(&self, shown: &HookInput) -> Result<Option<Rows>> {
        let _ = shown;
        Ok(None)
    }

    /// At a checkpoint inside a layer; look, do not touch.
    ///
    /// # Errors
    /// An error ends the forward.
    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<()> {
        let _ = (checkpoint, shown);
        Ok(())
    }

    /// In a layer whose feed-forward is a mixture of whole ones: what its gate reads, `[T, D]`, and the expert of each
    /// row.
    ///
    /// # Errors
    /// An error ends the forward.
    fn chosen(&self, experts: &[u32], shown: &HookInput) -> Result<()> {
        let _ = (experts, shown);
        Ok(())
    }

    /// Before the layers of a step, where the model weights its adapters row by row (X-LoRA): look, do not touch.
    /// Called for whole steps, whatever the layers and phases.
    ///
    /// # Errors
    /// An error ends the forward.
    fn scalings(&self, scalings: &Scalings, layout: &SequenceLayout) -> Result<()> {
        let _ = (scalings, layout);
        Ok(())
    }

    /// The form for other processes that run layers of the model; absent = it acts in this process only.
    fn serializable(&self) -> Option<&dyn SerializableHook> {
        None
    }
}
