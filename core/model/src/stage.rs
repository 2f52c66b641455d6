//! The four shapes a loaded model can have: whole, or a stage of it. What a stage lacks is absent by type.

use crate::context::TransformContext;
use crate::traits::{LanguageModel, LayerStack, Model, OutputHead, TokenEmbedding, TransformerModel};
use crate::{Result, ops};
use candle_core::{Device, Tensor};

/// Where a stage lies in its model; explicit configuration, never inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagePosition {
    /// Embedding and the first layers.
    First,
    /// Layers.
    Middle,
    /// The last layers and the head.
    Last,
    /// Everything.
    Only,
}

/// Numbers of the whole model that every stage knows.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelShape {
    /// Blocks of the whole model.
    pub n_layers: usize,
    /// Trained context in tokens, if known.
    pub max_seq_len: Option<usize>,
    /// D.
    pub embedding_length: usize,
    /// Tokens up to which the short LongRoPE divisors hold; absent = one rope regime only.
    pub rope_regime_limit: Option<usize>,
}

/// What every stage has: the shape of the model, a device and layers.
pub struct StageBody {
    /// Numbers of the whole model.
    pub shape: ModelShape,
    /// Where weights and activations live.
    pub device: Device,
    /// The layers.
    pub stack: Box<dyn LayerStack>,
}

/// Embedding and the first layers.
pub struct FirstStage {
    /// Shape, device and layers.
    pub body: StageBody,
    /// The embedding.
    pub embedding: Box<dyn TokenEmbedding>,
}

/// Layers alone. It has no logits:
///
/// ```compile_fail
/// fn logits(stage: &menagerie_model::MiddleStage, normed: &candle_core::Tensor, compute: &menagerie_model::Compute) {
///     let _ = stage.head().logits(normed, compute);
/// }
/// ```
pub struct MiddleStage {
    /// Shape, device and layers.
    pub body: StageBody,
}

/// The last layers and the head.
pub struct LastStage {
    /// Shape, device and layers.
    pub body: StageBody,
    /// The head.
    pub head: Box<dyn OutputHead>,
}

/// Embedding, all layers and head.
pub struct WholeModel {
    /// Shape, device and layers.
    pub body: StageBody,
    /// The embedding.
    pub embedding: Box<dyn TokenEmbedding>,
    /// The head.
    pub head: Box<dyn OutputHead>,
}

macro_rules! transformer_model {
    ($($stage:ident),*) => {$(
        impl Model for $stage {
            fn device(&self) -> &Device {
                &self.body.device
            }
        }

        impl TransformerModel for $stage {
            fn n_layers(&self) -> usize {
                self.body.shape.n_layers
            }

            fn max_seq_len(&self) -> Option<usize> {
                self.body.shape.max_seq_len
            }

            fn embedding_length(&self) -> usize {
                self.body.shape.embedding_length
            }

            fn rope_regime_limit(&self) -> Option<usize> {
                self.body.shape.rope_regime_limit
            }

            fn stack(&self) -> &dyn LayerStack {
                &*self.body.stack
            }
        }
    )*};
}

transformer_model!(FirstStage, MiddleStage, LastStage, WholeModel);

impl FirstStage {
    /// The embedding.
    pub fn embedding(&self) -> &dyn TokenEmbedding {
        &*self.embedding
    }

    /// Tokens of the context to hidden rows `[T, D]`, to be sent on.
    ///
    /// # Errors
    /// What a part returns.
    pub fn forward(&self, context: &mut TransformContext) -> Result<Tensor> {
        let hidden = self.embedding.embed(context.tokens, context.layout.positions(), context.compute)?;
        self.body.stack.transform(hidden, context)
    }
}

impl MiddleStage {
    /// Hidden rows `[T, D]` to hidden rows `[T, D]`.
    ///
    /// # Errors
    /// What a layer returns.
    pub fn forward(&self, hidden: Tensor, context: &mut TransformContext) -> Result<Tensor> {
        self.body.stack.transform(hidden, context)
    }
}

impl LastStage {
    /// The head.
    pub fn head(&self) -> &dyn OutputHead {
        &*self.head
    }

    /// Hidden rows `[T, D]` to logits of the rows that want them, `[T', V]`.
    ///
    /// # Errors
    /// What a part returns.
    pub fn forward(&self, hidden: Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let hidden = self.body.stack.transform(hidden, context)?;
        let rows = ops::select_rows(&hidden, &context.layout.logit_rows())?;
        let normed = self.head.norm(&rows, context.compute)?;
        self.head.logits(&normed, context.compute)
    }
}

impl LanguageModel for WholeModel {
    fn embedding(&self) -> &dyn TokenEmbedding {
        &*self.embedding
    }

    fn head(&self) -> &dyn OutputHead {
        &*self.head
    }
}
