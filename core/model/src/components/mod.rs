//! What blocks are made of.

mod attention;
mod attention_gate;
mod causal_conv;
mod distance_buckets;
mod embedding;
mod feed_forward;
mod gated_delta_net;
mod gated_norm;
mod head;
mod latent_attention;
mod latent_linears;
mod linear_mixer;
mod low_rank;
mod mamba1;
mod mamba2;
mod mamba2_low_rank;
mod mixture;
mod moe;
mod norm;
mod per_layer;
mod qk_norm;
mod rope;
mod rope_frequencies;
mod shared_attention;
mod short_conv;
mod sum;
mod temperature;

pub use attention::{Attention, AttentionLinears};
pub use attention_gate::{AttentionGate, GateSource};
pub use causal_conv::CausalConv;
pub use distance_buckets::{BucketSides, DistanceBuckets};
pub use embedding::TableEmbedding;
pub use feed_forward::{GatedFeedForward, PlainFeedForward};
pub use gated_delta_net::{
    DeltaNetConvolutions, DeltaNetHeads, DeltaNetLinears, DeltaNetRates, GatedDeltaNet,
};
pub use gated_norm::GatedNorm;
pub use head::LinearHead;
pub use latent_attention::LatentAttention;
pub use latent_linears::{LatentLinears, LatentSizes, QueryLatent};
pub use linear_mixer::LinearMixer;
pub use low_rank::LowRankLinear;
pub use mamba1::{Mamba1, Mamba1Channels, Mamba1Linears, Mamba1Norms};
pub use mamba2::{Mamba2, Mamba2Convolutions, Mamba2Heads, Mamba2Linears};
pub use mamba2_low_rank::{Mamba2LowRank, Mamba2LowRankLinears};
pub use mixture::{ChooseBy, LayerMixture, MixtureGate, Mixtures};
pub use moe::{ExpertForm, Experts, LatentExperts, MoeFeedForward, Router, SharedExpert};
pub use norm::{LayerNorm, RmsNorm};
pub use per_layer::{PerLayerEmbedding, PerLayerInput};
pub use qk_norm::{HeadNorm, QkNorm, QkNormPlace};
pub use rope::{FrequencyQuestion, Rope, RopeDeclarations, RopeFrequencies, ScaledFrequencies};
pub use rope_frequencies::{Llama3Scaling, YarnScaling, base_frequencies};
pub use shared_attention::SharedAttention;
pub use short_conv::{ShortConv, ShortConvLinears};
pub use sum::SumMixer;
pub use temperature::Temperature;
