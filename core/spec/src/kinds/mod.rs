//! The built-in kinds: one file each, with its table of options, its tensors, its config and how the config is made.

pub(crate) mod attention;
pub(crate) mod attention_gate;
pub(crate) mod dense;
pub(crate) mod ends;
pub(crate) mod gated_delta_net;
pub(crate) mod gated_norm;
pub(crate) mod kda;
mod known;
pub(crate) mod latent_attention;
pub(crate) mod linear;
pub(crate) mod mamba1;
pub(crate) mod mamba2;
pub(crate) mod mamba2_low_rank;
pub(crate) mod moe;
pub(crate) mod norm;
pub(crate) mod per_layer_input;
pub(crate) mod qk_norm;
pub(crate) mod relative_bias;
pub(crate) mod rope;
pub(crate) mod router;
pub(crate) mod short_conv;
pub(crate) mod sum;

use crate::kind::{Definition, Family, Kind, Kinds, Options};

/// What kinds resolve to: re-exported by [`crate::config`].
pub(crate) mod configs {
    pub use super::attention::*;
    pub use super::attention_gate::{AttentionGateConfig, GateActivation, GatePer, GateSource};
    pub use super::dense::*;
    pub use super::gated_delta_net::*;
    pub use super::gated_norm::*;
    pub use super::kda::*;
    pub use super::latent_attention::*;
    pub use super::linear::*;
    pub use super::mamba1::*;
    pub use super::mamba2::*;
    pub use super::mamba2_low_rank::*;
    pub use super::moe::*;
    pub use super::norm::*;
    pub use super::per_layer_input::*;
    pub use super::qk_norm::*;
    pub use super::relative_bias::RelativeBiasConfig;
    pub use super::rope::*;
    pub use super::router::*;
    pub use super::short_conv::*;
    pub use super::sum::*;
}

/// Every kind this build has or knows.
const BUILT_IN: &[&Kind] = &[
    norm::RmsConfig::KIND,
    norm::LayerNormConfig::KIND,
    attention::AttentionConfig::KIND,
    &NO_MIXER,
    latent_attention::LatentAttentionConfig::KIND,
    mamba1::Mamba1Config::KIND,
    mamba2::Mamba2Config::KIND,
    mamba2_low_rank::Mamba2LowRankConfig::KIND,
    gated_delta_net::GatedDeltaNetConfig::KIND,
    kda::KdaConfig::KIND,
    short_conv::ShortConvConfig::KIND,
    linear::LinearMixerConfig::KIND,
    sum::SumConfig::KIND,
    &RWKV6,
    &RWKV7,
    dense::GatedConfig::KIND,
    dense::PlainConfig::KIND,
    moe::MoeConfig::KIND,
    per_layer_input::PerLayerInputConfig::KIND,
    &NO_FEED_FORWARD,
];

impl Kinds {
    /// The built-in kinds, and those that the language has and this build does not.
    pub fn built_in() -> Kinds {
        Kinds { kinds: BUILT_IN.to_vec() }
    }
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds::built_in()
    }
}

crate::options! {
    /// No options.
    pub struct NoOptions {}
}

static NO_MIXER: Kind =
    Kind::nothing(Family::Mixer, "none", "No mixer in this layer.", <NoOptions as Options>::TABLE);
static NO_FEED_FORWARD: Kind = Kind::nothing(
    Family::FeedForward,
    "none",
    "No feed-forward in this layer.",
    <NoOptions as Options>::TABLE,
);
static RWKV6: Kind = known::mixer("rwkv6", "RWKV-6 (Peng et al., 2024).");
static RWKV7: Kind = known::mixer("rwkv7", "RWKV-7 (Peng et al., 2025).");
