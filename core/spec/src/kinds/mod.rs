//! The built-in kinds: one file each, with its table of options, its tensors, its config and how the config is made.

pub(crate) mod attention;
pub(crate) mod dense;
pub(crate) mod ends;
mod known;
pub(crate) mod moe;
pub(crate) mod norm;
pub(crate) mod rope;
pub(crate) mod short_conv;

use crate::kind::{Definition, Family, Kind, Options};

/// What kinds resolve to: re-exported by [`crate::config`].
pub(crate) mod configs {
    pub use super::attention::*;
    pub use super::dense::*;
    pub use super::moe::*;
    pub use super::norm::*;
    pub use super::rope::*;
    pub use super::short_conv::*;
}

/// Every kind this build has or knows.
pub(crate) const BUILT_IN: &[&Kind] = &[
    norm::RmsConfig::KIND,
    norm::LayerNormConfig::KIND,
    attention::AttentionConfig::KIND,
    &NO_MIXER,
    &known::LATENT_ATTENTION,
    &known::MAMBA1,
    &MAMBA2,
    &GATED_DELTA_NET,
    short_conv::ShortConvConfig::KIND,
    &RWKV6,
    &RWKV7,
    dense::GatedConfig::KIND,
    dense::PlainConfig::KIND,
    moe::MoeConfig::KIND,
    &NO_FEED_FORWARD,
];

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
static MAMBA2: Kind = known::mixer("mamba2", "State space duality (Dao and Gu, 2024).");
static GATED_DELTA_NET: Kind = known::mixer("gated-delta-net", "Gated DeltaNet (Yang et al., 2024).");
static RWKV6: Kind = known::mixer("rwkv6", "RWKV-6 (Peng et al., 2024).");
static RWKV7: Kind = known::mixer("rwkv7", "RWKV-7 (Peng et al., 2025).");
