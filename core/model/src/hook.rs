//! Hooks into a forward: [`LayerHook`] around layers, [`Checkpoint`] inside a block.

use crate::Result;
use crate::compute::Compute;
use crate::context::Scalings;
use crate::layout::SequenceLayout;
use crate::rows::Rows;
use std::ops::Range;

/// A named place inside a block where a hook may look; ids, no strings at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checkpoint {
    /// The mixer branch, before it is added.
    AttnOut,
    /// The feed-forward branch, before it is added.
    FfnOut,
    /// The third branch, before it is added.
    LastOut,
    /// The stream after the block (`l_out` in llama.cpp).
    LayerOut,
}

impl Checkpoint {
    /// llama.cpp's name of the place, without the layer.
    pub fn name(self) -> &'static str {
        match self {
            Self::AttnOut => "attn_out",
            Self::FfnOut => "ffn_out",
            Self::LastOut => "last_out",
            Self::LayerOut => "l_out",
        }
    }
}

/// Looks at, or replaces, the hidden rows around layers. Honoured by the container of the layers, not by a model.
pub trait LayerHook: Send + Sync {
    /// Layers it wants to be called for.
    fn layers(&self) -> Range<usize>;

    /// Before a layer: `Some` replaces the rows `[T, D]`.
    ///
    /// # Errors
    /// An error ends the forward.
    fn before_layer(
        &self,
        layer: usize,
        hidden: &Rows,
        layout: &SequenceLayout,
        compute: &Compute,
    ) -> Result<Option<Rows>> {
        let _ = (layer, hidden, layout, compute);
        Ok(None)
    }

    /// After a layer: `Some` replaces the rows `[T, D]`.
    ///
    /// # Errors
    /// An error ends the forward.
    fn after_layer(
        &self,
        layer: usize,
        hidden: &Rows,
        layout: &SequenceLayout,
        compute: &Compute,
    ) -> Result<Option<Rows>> {
        let _ = (layer, hidden, layout, compute);
        Ok(None)
    }

    /// At a checkpoint inside a layer; look, do not touch.
    ///
    /// # Errors
    /// An error ends the forward.
    fn at(&self, layer: usize, checkpoint: Checkpoint, value: &Rows, compute: &Compute) -> Result<()> {
        let _ = (layer, checkpoint, value, compute);
        Ok(())
    }

    /// In a layer whose feed-forward is a mixture of whole ones: what its gate reads, `[T, D]`, and the expert of each row.
    ///
    /// # Errors
    /// An error ends the forward.
    fn chosen(&self, layer: usize, input: &Rows, experts: &[u32], compute: &Compute) -> Result<()> {
        let _ = (layer, input, experts, compute);
        Ok(())
    }

    /// Before the layers of a step, where the model weights its adapters row by row (X-LoRA): look, do not touch.
    ///
    /// # Errors
    /// An error ends the forward.
    fn scalings(&self, scalings: &Scalings, layout: &SequenceLayout) -> Result<()> {
        let _ = (scalings, layout);
        Ok(())
    }
}
