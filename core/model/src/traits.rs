//! The traits everything else stands on; all object-safe.

use crate::Result;
use crate::compute::Compute;
use crate::context::TransformContext;
use crate::state::StateSpec;
use candle_core::{Device, Tensor};
use std::ops::Range;

/// Something with weights on a device.
pub trait Model: Send + Sync {
    /// Where its weights and activations live.
    fn device(&self) -> &Device;
}

/// Token ids to rows.
pub trait TokenEmbedding: Send + Sync {
    /// Rows of the table; ids at or past it are an error.
    fn vocabulary(&self) -> usize;

    /// `[T]` ids to `[T, D]` f32 rows. `positions` is `[T]`.
    ///
    /// # Errors
    /// An id past the vocabulary.
    fn embed(&self, tokens: &[u32], positions: &[u32], compute: &Compute) -> Result<Tensor>;
}

/// A range of layers; callable with any state set.
pub trait LayerStack: Send + Sync {
    /// Which layers of the model these are.
    fn layers(&self) -> Range<usize>;

    /// The states the layers declared, in the order of their ids.
    fn states(&self) -> &[StateSpec];

    /// `[T, D]` to `[T, D]`.
    ///
    /// # Errors
    /// What a layer returns, with its index.
    fn transform(&self, hidden: Tensor, context: &mut TransformContext) -> Result<Tensor>;
}

/// Hidden rows to logits, in two steps (X-LoRA and embeddings want the first alone).
pub trait OutputHead: Send + Sync {
    /// Columns of the logits.
    fn vocabulary(&self) -> usize;

    /// Final norm, `[T, D]` to `[T, D]`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn norm(&self, hidden: &Tensor, compute: &Compute) -> Result<Tensor>;

    /// Normed rows `[T', D]` to `[T', V]`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn logits(&self, normed: &Tensor, compute: &Compute) -> Result<Tensor>;
}

/// A model made of blocks, or a range of one.
pub trait TransformerModel: Model {
    /// Blocks of the whole model.
    fn n_layers(&self) -> usize;

    /// Trained context in tokens, if known.
    fn max_seq_len(&self) -> Option<usize>;

    /// D: width of the residual stream.
    fn embedding_length(&self) -> usize;

    /// Tokens up to which the short LongRoPE divisors hold; absent = one rope regime only.
    fn rope_regime_limit(&self) -> Option<usize>;

    /// The layers.
    fn stack(&self) -> &dyn LayerStack;
}

/// A whole model: embedding, layers and head.
pub trait LanguageModel: TransformerModel {
    /// The embedding.
    fn embedding(&self) -> &dyn TokenEmbedding;

    /// The head.
    fn head(&self) -> &dyn OutputHead;

    /// Embeds, transforms, and returns logits of the rows that want them, `[T', V]`.
    ///
    /// Appends to the state of the sequences but does not advance their length: the caller does, in one place.
    ///
    /// # Errors
    /// What a part returns.
    fn forward(&self, context: &mut TransformContext) -> Result<Tensor> {
        let hidden = self.embedding().embed(context.tokens, context.layout.positions(), context.compute)?;
        let hidden = self.stack().transform(hidden, context)?;
        let rows = crate::ops::select_rows(&hidden, &context.layout.logit_rows())?;
        let normed = self.head().norm(&rows, context.compute)?;
        self.head().logits(&normed, context.compute)
    }
}

/// A norm.
pub trait Norm: Send + Sync {
    /// `[T, D]` to `[T, D]`.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn forward(&self, x: &Tensor, compute: &Compute) -> Result<Tensor>;
}

/// Mixes tokens: attention, latent attention, recurrence.
pub trait SequenceMixer: Send + Sync {
    /// What it keeps between steps, in the order of the ids it was built with.
    fn states(&self) -> Vec<StateSpec>;

    /// Normed rows `[T, D]` to branch output `[T, D]`, a tensor of its own: the block changes it in place.
    ///
    /// # Errors
    /// A shape or state that does not fit.
    fn forward(&self, x: &Tensor, context: &mut TransformContext) -> Result<Tensor>;
}

/// Transforms each token.
pub trait FeedForward: Send + Sync {
    /// What it keeps between steps (token shift of RWKV); most keep nothing.
    fn states(&self) -> Vec<StateSpec> {
        Vec::new()
    }

    /// Normed rows `[T, D]` (and the raw input of the block, which routers and second branches want) to `[T, D]`,
    /// a tensor of its own: the block changes it in place.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn forward(&self, x: &Tensor, block_input: &Tensor, context: &mut TransformContext) -> Result<Tensor>;
}

/// A matrix product with an optional bias; what LoRA, X-LoRA, quantisation and devices wrap.
pub trait Linear: Send + Sync {
    /// Columns of the weight.
    fn in_features(&self) -> usize;

    /// Rows of the weight.
    fn out_features(&self) -> usize;

    /// `[T, in]` to `[T, out]`, a tensor of its own: callers change it in place.
    ///
    /// # Errors
    /// A shape that does not fit.
    fn forward(&self, x: &crate::activation::Activated, context: &TransformContext) -> Result<Tensor>;

    /// The stored weight, if this is a plain product with nothing around it: lets a caller run several products over the same rows in one parallel region.
    fn weight(&self) -> Option<&crate::linear::Weight>;

    /// The bias `[out]`, if any.
    fn bias(&self) -> Option<&[f32]>;
}

impl<T: Norm + ?Sized> Norm for Box<T> {
    fn forward(&self, x: &Tensor, compute: &Compute) -> Result<Tensor> {
        (**self).forward(x, compute)
    }
}

impl<T: SequenceMixer + ?Sized> SequenceMixer for Box<T> {
    fn states(&self) -> Vec<StateSpec> {
        (**self).states()
    }

    fn forward(&self, x: &Tensor, context: &mut TransformContext) -> Result<Tensor> {
        (**self).forward(x, context)
    }
}

impl<T: FeedForward + ?Sized> FeedForward for Box<T> {
    fn states(&self) -> Vec<StateSpec> {
        (**self).states()
    }

    fn forward(&self, x: &Tensor, block_input: &Tensor, context: &mut TransformContext) -> Result<Tensor> {
        (**self).forward(x, block_input, context)
    }
}
