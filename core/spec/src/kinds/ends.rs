//! The tensors of the whole model: embedding and head.

use crate::config::{EmbeddingConfig, HeadKind, NormSite, OutputConfig};
use crate::kind::{Bits, FreeSize, RoleDef, Sizes, WantedRole};

/// Tensors of the embedding.
pub(crate) static EMBEDDING: [RoleDef; 3] = [
    RoleDef::linear("token_embd", &["D", "V"], "A row per token.").of_model(),
    RoleDef::linear("position_embd", &["D", "context"], "A row per position, added to the token's.")
        .given_by("positions")
        .of_model(),
    RoleDef::linear("token_types", &["D", "types"], "A row per type; row 0 is added to every token.")
        .given_by("token_types")
        .of_model(),
];

/// Tensors of the head.
pub(crate) static OUTPUT: [RoleDef; 1] =
    [RoleDef::linear("output", &["D", "V"], "The head, where it is not the embedding.")
        .with_bias("bias")
        .when("head")
        .stored(Bits::Logits)
        .of_model()];

/// Sizes of a model that only the shapes of its tensors give.
pub static MODEL_SIZES: [FreeSize; 3] = [
    FreeSize { symbol: "V", hints: &["vocab_size"], doc: "Rows of the embedding." },
    FreeSize { symbol: "context", hints: &["context_length"], doc: "Positions that have a row." },
    FreeSize { symbol: "types", hints: &["token_type_count"], doc: "Types of tokens." },
];

impl EmbeddingConfig {
    /// What it says of the tensors of the embedding.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        sizes.role("positions", self.positions.as_ref());
        sizes.role("token_types", self.token_types.as_ref());
        sizes
    }

    /// The tensors it wants; `sizes` are those of [`EmbeddingConfig::sizes`] and of the model.
    pub fn wanted(&self, sizes: &Sizes) -> Vec<WantedRole> {
        sizes.wanted(&EMBEDDING)
    }
}

impl OutputConfig {
    /// What it says of the tensors of the head. Where the file decides whether the head is its own, it is wanted.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        sizes.bias("bias", self.bias);
        sizes.holds("head", matches!(self.head, HeadKind::Own | HeadKind::OwnOrTied));
        sizes
    }

    /// The tensors it wants; `sizes` are those of [`OutputConfig::sizes`] and of the model.
    pub fn wanted(&self, sizes: &Sizes) -> Vec<WantedRole> {
        sizes.wanted(&OUTPUT)
    }
}

impl NormSite {
    /// The tensors it wants, over rows of this width.
    pub fn wanted(&self, width: usize) -> Vec<WantedRole> {
        self.norm.wanted_norm(&self.role, width)
    }
}
