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
mod none;
pub(crate) mod norm;
pub(crate) mod per_layer_input;
pub(crate) mod qk_norm;
pub(crate) mod relative_bias;
pub(crate) mod rope;
pub(crate) mod router;
pub(crate) mod short_conv;
pub(crate) mod sum;

use crate::kind::{Definition, Kind, Kinds};
use crate::language::sections::SPEC;

/// The configs of the kinds: re-exported by [`crate::config`].
pub(crate) mod configs {
    pub use super::{
        attention::*,
        attention_gate::{AttentionGateConfig, GateActivation, GatePer, GateSource},
        dense::*,
        gated_delta_net::*,
        gated_norm::*,
        kda::*,
        latent_attention::*,
        linear::*,
        mamba1::*,
        mamba2::*,
        mamba2_low_rank::*,
        moe::*,
        norm::*,
        per_layer_input::*,
        qk_norm::*,
        relative_bias::RelativeBiasConfig,
        rope::*,
        router::*,
        short_conv::*,
        sum::*,
    };
}

/// Every kind that this build supports or knows.
const BUILT_IN: &[&Kind] = &[
    norm::RmsConfig::KIND,
    norm::LayerNormConfig::KIND,
    attention::AttentionConfig::KIND,
    &none::MIXER,
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
    &none::FEED_FORWARD,
];

impl Kinds {
    /// The built-in kinds, and those that the language knows and this build does not support.
    pub fn built_in() -> Kinds {
        Kinds { file: &SPEC, kinds: BUILT_IN.to_vec() }
    }
}

impl Default for Kinds {
    fn default() -> Kinds {
        Kinds::built_in()
    }
}

static RWKV6: Kind = known::mixer("rwkv6", "RWKV-6 (Peng et al., 2024).");
static RWKV7: Kind = known::mixer("rwkv7", "RWKV-7 (Peng et al., 2025).");
