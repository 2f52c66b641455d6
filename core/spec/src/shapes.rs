//! Which fields each table of a spec has: what the decoder allows, what the schema lists.

/// A table of the language.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Name in the JSON Schema.
    pub(crate) name: &'static str,
    /// Fields, in the order they are shown.
    pub(crate) fields: &'static [&'static str],
}

pub(crate) const SPEC: Shape = Shape {
    name: "Spec",
    fields: &[
        "schema",
        "extends",
        "unset",
        "architecture",
        "truth",
        "let",
        "layers",
        "embedding",
        "norm",
        "block",
        "mixer",
        "feed_forward",
        "output",
        "check",
        "gguf",
        "hf",
        "adapter",
        "tokenizer",
        "chat",
    ],
};
pub(crate) const ARCHITECTURE: Shape =
    Shape { name: "Architecture", fields: &["id", "gguf", "hf", "summary"] };
pub(crate) const HF_CLASS: Shape = Shape { name: "HfClass", fields: &["config", "rename", "values"] };
pub(crate) const TRUTH: Shape = Shape { name: "Truth", fields: &["reference", "source", "covers", "notes"] };
pub(crate) const LAYERS: Shape = Shape { name: "Layers", fields: &["count"] };
pub(crate) const EMBEDDING: Shape =
    Shape { name: "Embedding", fields: &["scale", "norm", "positions", "token_types"] };
pub(crate) const NORM: Shape = Shape { name: "Norm", fields: &["kind", "eps", "weight", "bias", "offset"] };
pub(crate) const SITE: Shape =
    Shape { name: "Site", fields: &["role", "kind", "eps", "weight", "bias", "offset", "when"] };
pub(crate) const BLOCK: Shape = Shape { name: "Block", fields: &["mixer", "feed_forward"] };
pub(crate) const BRANCH: Shape =
    Shape { name: "Branch", fields: &["pre", "post", "after", "reads", "scale"] };
pub(crate) const ATTENTION: Shape = Shape {
    name: "Attention",
    fields: &[
        "kind",
        "when",
        "heads",
        "kv_heads",
        "key_dim",
        "value_dim",
        "bias",
        "scale",
        "mask",
        "softcap",
        "clamp",
        "sinks",
        "qk_norm",
        "v_norm",
        "window",
        "temperature",
        "gate",
        "rope",
    ],
};
pub(crate) const LATENT_ATTENTION: Shape = Shape {
    name: "LatentAttention",
    fields: &[
        "kind",
        "when",
        "heads",
        "kv_heads",
        "key_dim",
        "value_dim",
        "bias",
        "scale",
        "mask",
        "softcap",
        "clamp",
        "sinks",
        "qk_norm",
        "v_norm",
        "window",
        "temperature",
        "gate",
        "rope",
        "latent_norm",
    ],
};
pub(crate) const RECURRENT: Shape = Shape { name: "Recurrent", fields: &["kind", "when", "inner_norm"] };
pub(crate) const NONE: Shape = Shape { name: "NoComponent", fields: &["kind", "when"] };
pub(crate) const ATTENTION_BIAS: Shape = Shape { name: "AttentionBias", fields: &["qkv", "output"] };
pub(crate) const QK_NORM: Shape =
    Shape { name: "QkNorm", fields: &["over", "at", "kind", "weight", "bias", "eps", "offset", "when"] };
pub(crate) const WINDOW: Shape = Shape { name: "Window", fields: &["kind", "size", "when"] };
pub(crate) const TEMPERATURE: Shape =
    Shape { name: "Temperature", fields: &["scale", "length", "offset", "when"] };
pub(crate) const ROPE: Shape =
    Shape { name: "Rope", fields: &["kind", "pairs", "dims", "base", "scaling", "when"] };
pub(crate) const SCALING: Shape =
    Shape { name: "Scaling", fields: &["accept", "when", "linear", "yarn", "llama3", "factors", "longrope"] };
pub(crate) const YARN: Shape = Shape { name: "Yarn", fields: &["magnitude", "round"] };
pub(crate) const LONGROPE: Shape = Shape { name: "LongRope", fields: &["magnitude"] };
pub(crate) const NO_OPTIONS: Shape = Shape { name: "NoOptions", fields: &[] };
pub(crate) const DENSE: Shape =
    Shape { name: "Dense", fields: &["kind", "when", "activation", "bias", "inner_norm", "limit"] };
pub(crate) const MOE: Shape = Shape { name: "Moe", fields: &["kind", "when", "experts", "shared", "router"] };
pub(crate) const EXPERT: Shape = Shape { name: "Expert", fields: &["kind", "activation", "bias"] };
pub(crate) const SHARED_EXPERT: Shape =
    Shape { name: "SharedExpert", fields: &["kind", "activation", "bias", "gate", "when"] };
pub(crate) const ROUTER: Shape = Shape {
    name: "Router",
    fields: &[
        "score",
        "bias",
        "input",
        "select",
        "select_bias",
        "groups",
        "weights",
        "scale",
        "apply",
        "top_k",
    ],
};
pub(crate) const GROUPS: Shape = Shape { name: "Groups", fields: &["count", "keep", "score"] };
pub(crate) const OUTPUT: Shape =
    Shape { name: "Output", fields: &["norm", "head", "bias", "scale", "softcap", "pooling"] };
pub(crate) const GGUF: Shape = Shape { name: "Gguf", fields: &["tensors", "ignore_tensors", "ignore_keys"] };
pub(crate) const HF: Shape =
    Shape { name: "Hf", fields: &["layer", "config", "expect", "tensors", "ignore_tensors", "ignore_keys"] };
pub(crate) const HF_TENSOR: Shape = Shape { name: "HfTensor", fields: &["from", "layout"] };
pub(crate) const HF_CONFIG_TENSOR: Shape = Shape { name: "HfConfigTensor", fields: &["config"] };
pub(crate) const ADAPTER: Shape = Shape { name: "Adapter", fields: &["order"] };
pub(crate) const TOKENIZER: Shape = Shape { name: "Tokenizer", fields: &["pre", "end"] };
pub(crate) const CHAT: Shape = Shape { name: "Chat", fields: &["fallback"] };

/// Every shape, for the test against the schema.
#[cfg(test)]
pub(crate) const ALL: &[&Shape] = &[
    &SPEC,
    &ARCHITECTURE,
    &HF_CLASS,
    &TRUTH,
    &LAYERS,
    &EMBEDDING,
    &NORM,
    &SITE,
    &BLOCK,
    &BRANCH,
    &ATTENTION,
    &LATENT_ATTENTION,
    &RECURRENT,
    &NONE,
    &ATTENTION_BIAS,
    &QK_NORM,
    &WINDOW,
    &TEMPERATURE,
    &ROPE,
    &SCALING,
    &YARN,
    &LONGROPE,
    &NO_OPTIONS,
    &DENSE,
    &MOE,
    &EXPERT,
    &SHARED_EXPERT,
    &ROUTER,
    &GROUPS,
    &OUTPUT,
    &GGUF,
    &HF,
    &HF_TENSOR,
    &HF_CONFIG_TENSOR,
    &ADAPTER,
    &TOKENIZER,
    &CHAT,
];
