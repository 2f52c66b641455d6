//! The tensors of the whole model: embedding and head; and those of a head for further tokens.

use crate::config::{
    BiasRule, EmbeddingConfig, HeadKind, NextnConfig, NormSite, OutputConfig, PerLayerConfig,
};
use crate::kind::{FreeSize, RoleDef, Sizes, WantedRole};

/// Tensors of the embedding.
pub(crate) static EMBEDDING: [RoleDef; 6] = [
    RoleDef::linear("token_embd", &["D", "V"], "A row per token.").of_model(),
    RoleDef::linear("position_embd", &["D", "context"], "A row per position, added to the token's.")
        .given_by("positions")
        .of_model(),
    RoleDef::linear("token_types", &["D", "types"], "A row per type; row 0 is added to every token.")
        .given_by("token_types")
        .of_model(),
    RoleDef::linear("per_layer_token_embd", &["layers*per_layer", "V"], "For each layer a row per token.")
        .when("per layer")
        .of_model(),
    RoleDef::linear(
        "per_layer_model_proj",
        &["D", "layers*per_layer"],
        "Projection of the embedded rows for each layer.",
    )
    .when("per layer")
    .of_model(),
    RoleDef::norm("per_layer_proj_norm", &["per_layer"], "per_layer_norm", "Norm on the rows of each layer.")
        .of_model(),
];

/// Tensors of the head.
pub(crate) static OUTPUT: [RoleDef; 5] = [
    RoleDef::linear("output", &["D", "V"], "The head, where it is not the embedding.")
        .with_bias("bias")
        .when("head")
        .of_model(),
    RoleDef::linear("cls", &["D", "D"], "The first linear of a classifier.")
        .with_bias("classifier_bias")
        .when("classifier")
        .of_model(),
    RoleDef::linear("cls.output", &["D", "labels"], "The scores of a classifier.")
        .with_bias("classifier_bias")
        .when("classifier")
        .of_model(),
    RoleDef::linear("dense_2", &["D", "dense_rows"], "The first linear behind the pooling.")
        .given_by("dense_first")
        .of_model(),
    RoleDef::linear("dense_3", &["dense_rows", "vector"], "The second linear behind the pooling.")
        .given_by("dense_second")
        .of_model(),
];

/// Tensors of a head for further tokens, besides those of its block and its norms.
pub(crate) static NEXTN: [RoleDef; 3] = [
    RoleDef::linear("nextn.eh_proj", &["2*D", "D"], "The projection.").given_by("projection"),
    RoleDef::linear("nextn.embed_tokens", &["D", "V"], "A row per token.").given_by("embedding"),
    RoleDef::linear("nextn.shared_head_head", &["D", "V"], "The matrix for logits.").given_by("head"),
];

/// Sizes of a model that only the shapes of its tensors give.
pub static MODEL_SIZES: [FreeSize; 6] = [
    FreeSize { symbol: "V", hints: &["vocab_size"], doc: "Rows of the embedding." },
    FreeSize { symbol: "context", hints: &["context_length"], doc: "Positions that have a row." },
    FreeSize { symbol: "types", hints: &["token_type_count"], doc: "Types of tokens." },
    FreeSize { symbol: "labels", hints: &[], doc: "Scores of a classifier." },
    FreeSize {
        symbol: "dense_rows",
        hints: &["dense_2_feat_out"],
        doc: "Rows of the first linear behind the pooling.",
    },
    FreeSize { symbol: "vector", hints: &["dense_3_feat_out"], doc: "Elements of a vector." },
];

impl EmbeddingConfig {
    /// The sizes and conditions of the tensors of the embedding.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        sizes.role("positions", self.positions.as_ref());
        sizes.role("token_types", self.token_types.as_ref());
        sizes.holds("per layer", self.per_layer.is_some());
        if let Some(PerLayerConfig { width, layers, norm, .. }) = &self.per_layer {
            sizes.set("per_layer", *width);
            sizes.set("layers", *layers);
            sizes.norm("per_layer_norm", norm.as_ref().map(|site| &site.norm));
        }
        sizes
    }

    /// Its tensors; `sizes` are those of [`EmbeddingConfig::sizes`] and of the model.
    pub fn wanted(&self, sizes: &Sizes) -> Vec<WantedRole> {
        sizes.wanted(&EMBEDDING)
    }
}

impl OutputConfig {
    /// The sizes and conditions of the tensors of the head. If the file decides whether the head is separate, it is
    /// included.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        sizes.bias("bias", self.bias);
        sizes.holds("head", matches!(self.head, HeadKind::Own | HeadKind::OwnOrTied));
        sizes.holds("classifier", self.classifier.is_some());
        sizes.bias("classifier_bias", BiasRule::IfPresent);
        sizes.role("dense_first", self.dense.first());
        sizes.role("dense_second", self.dense.get(1));
        sizes
    }

    /// Its tensors; `sizes` are those of [`OutputConfig::sizes`] and of the model.
    pub fn wanted(&self, sizes: &Sizes) -> Vec<WantedRole> {
        sizes.wanted(&OUTPUT)
    }
}

impl NextnConfig {
    /// The sizes of its tensors.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        sizes.role("projection", Some(&self.projection));
        sizes.role("embedding", self.embedding.as_ref());
        sizes.role("head", self.head.as_ref());
        sizes
    }

    /// Its tensors besides those of its block and its norms; `sizes` are those of [`NextnConfig::sizes`] and of the model.
    pub fn wanted(&self, sizes: &Sizes) -> Vec<WantedRole> {
        sizes.wanted(&NEXTN)
    }

    /// Its norms, without those of its block.
    pub fn sites(&self) -> impl Iterator<Item = &NormSite> {
        [&self.embedding_norm, &self.hidden_norm, &self.norm].into_iter().flatten()
    }
}

impl NormSite {
    /// Its tensors, for rows of this width.
    pub fn wanted(&self, width: usize) -> Vec<WantedRole> {
        self.norm.wanted_norm(&self.role, width)
    }
}
