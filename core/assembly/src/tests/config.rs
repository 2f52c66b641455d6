//! The config of the testkit's tiny model, as a spec would resolve it.

use menagerie_spec::ModelConfig;
use menagerie_spec::config::*;
use menagerie_testkit::TinyModel;
use menagerie_testkit::tiny::{EPS, ROPE_BASE};

fn site(role: &str) -> Option<NormSite> {
    let norm = RmsConfig { eps: EPS, weight: NormWeight::Own, offset: 0.0 };
    Some(NormSite { role: role.to_owned(), norm: norm.into() })
}

fn branch(pre: &str) -> BranchConfig {
    BranchConfig {
        pre: site(pre),
        post: None,
        after: None,
        again: None,
        reads: BranchInput::Stream,
        scale: 1.0,
    }
}

/// Dense layers, halves as rope pairs, an own or tied head.
pub(crate) fn tiny_config(model: &TinyModel) -> ModelConfig {
    let shape = model.shape;
    let rope = RopeConfig {
        pairs: RopePairs::Halves,
        dims: shape.head_dim,
        base: ROPE_BASE,
        scaling: RopeScaling::None,
    };
    let attention = AttentionConfig {
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        key_dim: shape.head_dim,
        value_dim: shape.head_dim,
        qkv_bias: BiasRule::None,
        output_bias: BiasRule::None,
        scale: 1.0 / (shape.head_dim as f32).sqrt(),
        mask: MaskKind::Causal,
        softcap: None,
        clamp: None,
        alibi: None,
        relative_bias: None,
        sinks: None,
        qk_norm: None,
        v_norm: None,
        window: None,
        temperature: None,
        gate: None,
        inner_norm: None,
        rope: Some(rope),
        values: ValueSource::Own,
        keys_of: None,
    };
    let gated = GatedConfig {
        activation: Activation::Silu.into(),
        bias: BiasRule::None,
        inner_norm: None,
        limit: None,
    };
    let layer = |index| LayerConfig {
        index,
        mixer: Some(attention.clone().into()),
        mixer_branch: branch("attn_norm"),
        feed_forward: Some(gated.clone().into()),
        feed_forward_branch: branch("ffn_norm"),
        beside: None,
        last: None,
        last_branch: BranchConfig { pre: None, ..branch("ffn_norm") },
        embedding_scale: None,
        output_scale: None,
        loop_norm: None,
        entry: None,
    };
    ModelConfig {
        architecture: "tiny".to_owned(),
        embedding_length: shape.width,
        context_length: None,
        embedding: EmbeddingConfig {
            scale: 1.0,
            norm: None,
            positions: None,
            token_types: None,
            per_layer: None,
        },
        layers: (0..shape.layers).map(layer).collect(),
        output: OutputConfig {
            norm: site("output_norm"),
            head: HeadKind::OwnOrTied,
            bias: BiasRule::None,
            scale: 1.0,
            softcap: None,
            suppress: None,
            pooling: Pooling::None,
            classifier: None,
            dense: Vec::new(),
        },
        nextn: Vec::new(),
        tokenizer: TokenizerConfig::default(),
        chat_fallback: None,
        adapter_order: Vec::new(),
        hints: Default::default(),
    }
}

/// Two experts per token, weights that sum to one.
pub(crate) fn softmax_of_two() -> MoeConfig {
    MoeConfig {
        experts: ExpertConfig {
            kind: ExpertForm::Gated,
            activation: Activation::Silu.into(),
            bias: BiasRule::None,
            limit: None,
        },
        shared: None,
        width: ExpertWidth::Model,
        router: RouterConfig {
            score: RouterScore::Softmax,
            bias: BiasRule::None,
            input: RouterInput::Branch,
            norm: None,
            input_scale: 1.0,
            select: RouterSelect::Scores,
            select_bias: None,
            groups: None,
            weights: RouterWeights::SumToOne,
            scale: 1.0,
            apply: RouterApply::ToOutput,
            top_k: 2,
        },
    }
}
