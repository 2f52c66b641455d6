//! Hooks into a forward: [`LayerHook`] around layers, [`Checkpoint`] inside a block. [`crate::Hooks`] calls them.

use crate::Result;
use crate::compute::Compute;
use crate::layout::SequenceLayout;
use crate::rows::Rows;
use crate::scalings::Scalings;
use crate::serializable_hook::SerializableHook;
use crate::step::InferenceStep;
use std::ops::Range;

/// A named place inside a block that a hook may observe; ids, no strings at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Checkpoint {
    /// The mixer branch, before it is added.
    AttnOut,
    /// The first feed-forward branch, before it is added.
    FfnOut,
    /// The second feed-forward branch, before it is added.
    LastOut,
    /// The stream after the block and its hooks: the input of the next layer (`l_out` in llama.cpp).
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
    /// While generated tokens are fed back.
    Decode,
}

impl Phases {
    /// Whether a step is one of them.
    pub(crate) fn cover(self, step: &InferenceStep) -> bool {
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

/// The effect of a hook on the rows that it receives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it only observes. Returned rows are an error.
    #[default]
    Observes,
    /// It may replace them. Hooks with equal texts turn the same rows into the same rows, so that state which was
    /// computed with one may be kept for the other.
    Replaces(String),
}

/// The rows that a hook receives: those of the sequences whose step is in one of its phases.
#[derive(Clone, Copy)]
pub struct HookInput<'a> {
    /// The layer, 0-based as in `blk.N`.
    pub layer: usize,
    /// The rows `[T, D]`.
    pub rows: &'a Rows,
    /// Which of them belong to which sequence.
    pub layout: &'a SequenceLayout,
    /// Ids of the rows' tokens, `[T]`; absent if rows replace embedded tokens.
    pub tokens: Option<&'a [u32]>,
    /// Where and how they were computed.
    pub compute: &'a Compute,
}

/// The head of a model in a step, for hooks that read rows of layers with it.
pub trait StepHead {
    /// Which rows of the step belong to which sequence.
    fn layout(&self) -> &SequenceLayout;

    /// Where and how it computes.
    fn compute(&self) -> &Compute;

    /// Rows `[T', D]` of a layer to logits `[T', V]`, as those of the last layer: final norm, product, and all that the
    /// head does. `origin` names the row of the step that each row came from.
    ///
    /// # Errors
    /// As [`crate::OutputHead::norm`] and [`crate::OutputHead::logits`]; the step was cancelled.
    fn logits(&self, rows: Rows, origin: &[u32]) -> Result<Rows>;
}

/// Observes or replaces the hidden rows around layers. The container of the layers calls hooks, not the model.
///
/// Name, layers, phases and effect are read once, when it joins [`crate::Hooks`].
pub trait LayerHook: Send + Sync {
    /// Its name in messages.
    fn name(&self) -> &str;

    /// The layers for which it is called.
    fn layers(&self) -> Range<usize>;

    /// The steps for which it is called; in a step of several sequences it receives the rows of those that match.
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

    /// At a checkpoint inside a layer; observe, do not change.
    ///
    /// # Errors
    /// An error ends the forward.
    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<()> {
        let _ = (checkpoint, shown);
        Ok(())
    }

    /// In a layer whose feed-forward is a mixture of whole feed-forwards: the input of its gate, `[T, D]`, and the
    /// expert of each row.
    ///
    /// # Errors
    /// An error ends the forward.
    fn chosen(&self, experts: &[u32], shown: &HookInput) -> Result<()> {
        let _ = (experts, shown);
        Ok(())
    }

    /// Before the layers of a step, if the model weights its adapters row by row (X-LoRA): observe, do not change.
    /// Called for whole steps, whatever the layers and phases.
    ///
    /// # Errors
    /// An error ends the forward.
    fn scalings(&self, scalings: &Scalings, layout: &SequenceLayout) -> Result<()> {
        let _ = (scalings, layout);
        Ok(())
    }

    /// After the layers of a step, before its logits: the head of the model, for a hook that reads rows of layers as
    /// the head reads those of the last one. Called for whole steps, whatever the layers and phases, by executors whose
    /// [`crate::Executor::check_lens`] returns no error.
    ///
    /// # Errors
    /// An error ends the forward.
    fn at_head(&self, head: &dyn StepHead) -> Result<()> {
        let _ = head;
        Ok(())
    }

    /// The form for other processes that run layers of the model; absent = it acts in this process only.
    fn serializable(&self) -> Option<&dyn SerializableHook> {
        None
    }
}
