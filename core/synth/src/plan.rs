//! Which tensors a resolved config wants, with their dims: the assembler's wishes read backwards.

use crate::error::SynthError;
use crate::quantisation::Use;
use menagerie_spec::config::{
    AttentionConfig, BiasRule, BranchConfig, FeedForwardConfig, HeadKind, LayerConfig, MixerConfig,
    ModelConfig, MoeConfig, NormSite, QkNormOver, RopeScaling,
};
use std::collections::BTreeSet;

/// Sizes that a config leaves to the shapes of the tensors.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    /// Rows of the embedding.
    pub vocabulary: u64,
    /// Width of dense feed-forwards.
    pub feed_forward: Option<u64>,
    /// Width of an expert.
    pub expert_feed_forward: Option<u64>,
    /// Width of the shared expert.
    pub shared_feed_forward: Option<u64>,
    /// Routed experts.
    pub experts: Option<u64>,
    /// Whether the embedding makes the logits too.
    pub tied: bool,
}

/// A tensor to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// Role, or role with suffix.
    pub role: String,
    /// Block, if it is one's.
    pub layer: Option<usize>,
    /// `.weight`, `.bias` or nothing.
    pub suffix: &'static str,
    /// ggml order: fastest first.
    pub dims: Vec<u64>,
    /// What its type depends on.
    pub usage: Use,
    /// 1 for norm weights and divisors, else 0.
    pub centre: f32,
}

/// Collects the tensors of one model.
struct Plan<'a> {
    sizes: &'a Sizes,
    width: u64,
    layer: Option<usize>,
    layers: usize,
    tensors: Vec<Planned>,
    norms: BTreeSet<String>,
}

/// Every tensor of the model, in the order files have them.
///
/// # Errors
/// A size that is missing, or a component this does not know.
pub fn plan(config: &ModelConfig, sizes: &Sizes) -> Result<Vec<Planned>, SynthError> {
    let mut plan = Plan {
        sizes,
        width: config.embedding_length as u64,
        layer: None,
        layers: config.layers.len(),
        tensors: Vec::new(),
        norms: BTreeSet::new(),
    };
    plan.matrix(
        "token_embd",
        plan.width,
        sizes.vocabulary,
        if sizes.tied { Use::Output } else { Use::Plain },
    );
    plan.site(config.embedding.norm.as_ref());
    plan.site(config.output.norm.as_ref());
    let own = matches!(config.output.head, HeadKind::Own)
        || (config.output.head == HeadKind::OwnOrTied && !sizes.tied);
    if own {
        plan.matrix("output", plan.width, sizes.vocabulary, Use::Output);
    }
    plan.bias("output", sizes.vocabulary, config.output.bias);
    if config.embedding.positions.is_some() || config.embedding.token_types.is_some() {
        return Err(SynthError::Unsupported("learned positions and token types are not made up".to_owned()));
    }
    plan.rope_tensors(config);
    for layer in &config.layers {
        plan.layer(layer)?;
    }
    Ok(plan.tensors)
}

impl Plan<'_> {
    fn push(&mut self, role: &str, suffix: &'static str, dims: Vec<u64>, usage: Use, centre: f32) {
        self.tensors.push(Planned { role: role.to_owned(), layer: self.layer, suffix, dims, usage, centre });
    }

    fn matrix(&mut self, role: &str, columns: u64, rows: u64, usage: Use) {
        self.push(role, ".weight", vec![columns, rows], usage, 0.0);
    }

    fn bias(&mut self, role: &str, rows: u64, rule: BiasRule) {
        if rule == BiasRule::Required {
            self.push(role, ".bias", vec![rows], Use::Small, 0.0);
        }
    }

    fn site(&mut self, site: Option<&NormSite>) {
        let Some(site) = site else { return };
        if !self.norms.insert(format!("{:?}.{}", self.layer, site.role)) {
            return;
        }
        if site.norm.weight {
            self.push(&site.role, ".weight", vec![self.width], Use::Small, 1.0);
        }
        if site.norm.bias {
            self.push(&site.role, ".bias", vec![self.width], Use::Small, 0.0);
        }
    }

    fn branch(&mut self, branch: &BranchConfig) {
        for site in [&branch.pre, &branch.post, &branch.after] {
            self.site(site.as_ref());
        }
    }

    fn rope_tensors(&mut self, config: &ModelConfig) {
        let ropes = config.layers.iter().filter_map(|layer| match &layer.mixer {
            MixerConfig::Attention(attention) => attention.rope.as_ref(),
            _ => None,
        });
        let mut seen = BTreeSet::new();
        for rope in ropes {
            let roles = match &rope.scaling {
                RopeScaling::Factors { role } => vec![role],
                RopeScaling::LongRope { short, long, .. } => vec![long, short],
                _ => Vec::new(),
            };
            for role in roles {
                if seen.insert(role.clone()) {
                    self.push(role, ".weight", vec![rope.dims as u64 / 2], Use::Small, 1.0);
                }
            }
        }
    }

    fn layer(&mut self, layer: &LayerConfig) -> Result<(), SynthError> {
        self.layer = Some(layer.index);
        self.branch(&layer.mixer_branch);
        match &layer.mixer {
            MixerConfig::Attention(attention) => self.attention(attention, layer.index),
            MixerConfig::None => {}
            other => {
                return Err(SynthError::Unsupported(format!(
                    "tensors of this mixer are not made up: {other:?}"
                )));
            }
        }
        self.branch(&layer.feed_forward_branch);
        self.feed_forward(&layer.feed_forward, layer.index)
    }

    fn attention(&mut self, attention: &AttentionConfig, layer: usize) {
        let queries = (attention.heads * attention.key_dim) as u64;
        let keys = (attention.kv_heads * attention.key_dim) as u64;
        let values = (attention.kv_heads * attention.value_dim) as u64;
        let sensitive = Use::Sensitive(layer, self.layers);
        for (role, rows, usage) in
            [("attn_q", queries, Use::Plain), ("attn_k", keys, Use::Plain), ("attn_v", values, sensitive)]
        {
            self.matrix(role, self.width, rows, usage);
            self.bias(role, rows, attention.qkv_bias);
        }
        self.matrix("attn_output", (attention.heads * attention.value_dim) as u64, self.width, Use::Plain);
        self.bias("attn_output", self.width, attention.output_bias);
        if let Some(norm) = &attention.qk_norm {
            let widths = match norm.over {
                QkNormOver::Head => [attention.key_dim as u64; 2],
                QkNormOver::AllHeads => [queries, keys],
            };
            for (role, width) in ["attn_q_norm", "attn_k_norm"].into_iter().zip(widths) {
                self.push(role, ".weight", vec![width], Use::Small, 1.0);
            }
        }
        if let Some(role) = &attention.sinks {
            self.push(role, ".weight", vec![attention.heads as u64], Use::Small, 0.0);
        }
    }

    fn feed_forward(&mut self, feed_forward: &FeedForwardConfig, layer: usize) -> Result<(), SynthError> {
        let dense =
            |plan: &Self| plan.needed(plan.sizes.feed_forward, "feed_forward_length", "the feed-forward");
        match feed_forward {
            FeedForwardConfig::Gated { bias, .. } => {
                let inner = dense(self)?;
                self.dense(["ffn_gate", "ffn_up", "ffn_down"], inner, *bias, layer);
            }
            FeedForwardConfig::Plain { bias, .. } => {
                let inner = dense(self)?;
                self.dense(["", "ffn_up", "ffn_down"], inner, *bias, layer);
            }
            FeedForwardConfig::Moe(moe) => self.mixture(moe, layer)?,
            FeedForwardConfig::None => {}
            other => {
                return Err(SynthError::Unsupported(format!(
                    "tensors of this feed-forward are not made up: {other:?}"
                )));
            }
        }
        Ok(())
    }

    /// Gate (may be empty: none), up and down.
    fn dense(&mut self, roles: [&str; 3], inner: u64, bias: BiasRule, layer: usize) {
        for role in &roles[..2] {
            if !role.is_empty() {
                self.matrix(role, self.width, inner, Use::Plain);
                self.bias(role, inner, bias);
            }
        }
        self.matrix(roles[2], inner, self.width, Use::Sensitive(layer, self.layers));
        self.bias(roles[2], self.width, bias);
    }

    fn mixture(&mut self, moe: &MoeConfig, layer: usize) -> Result<(), SynthError> {
        let experts = self.needed(self.sizes.experts, "expert_count", "the experts")?;
        let inner = self.sizes.expert_feed_forward.or(self.sizes.feed_forward);
        let inner = self.needed(inner, "expert_feed_forward_length", "an expert")?;
        self.push("ffn_gate_inp", ".weight", vec![self.width, experts], Use::Small, 0.0);
        self.bias("ffn_gate_inp", experts, moe.router.bias);
        if let Some(role) = &moe.router.select_bias {
            self.push(role, "", vec![experts], Use::Small, 0.0);
        }
        if moe.experts.gated {
            self.push("ffn_gate_exps", ".weight", vec![self.width, inner, experts], Use::Plain, 0.0);
        }
        self.push("ffn_up_exps", ".weight", vec![self.width, inner, experts], Use::Plain, 0.0);
        let down = Use::Sensitive(layer, self.layers);
        self.push("ffn_down_exps", ".weight", vec![inner, self.width, experts], down, 0.0);
        if let Some(shared) = &moe.shared {
            let inner = self.sizes.shared_feed_forward.unwrap_or(inner);
            let gate = if shared.expert.gated { "ffn_gate_shexp" } else { "" };
            self.dense([gate, "ffn_up_shexp", "ffn_down_shexp"], inner, shared.expert.bias, layer);
            if shared.sigmoid_gate {
                self.push("ffn_gate_inp_shexp", ".weight", vec![self.width], Use::Small, 0.0);
            }
        }
        Ok(())
    }

    fn needed(&self, size: Option<u64>, key: &str, why: &str) -> Result<u64, SynthError> {
        let why = format!("it is the width or number of {why}");
        size.filter(|&size| size > 0).ok_or_else(|| SynthError::MissingKey { key: key.to_owned(), why })
    }
}
