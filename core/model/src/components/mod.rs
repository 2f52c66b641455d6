//! What blocks are made of.

mod attention;
mod embedding;
mod feed_forward;
mod head;
mod moe;
mod norm;
mod qk_norm;
mod rope;
mod rope_frequencies;
mod short_conv;
mod temperature;

pub use attention::{AttentionLinears, CausalAttention};
pub use embedding::TableEmbedding;
pub use feed_forward::{GatedFeedForward, PlainFeedForward};
pub use head::LinearHead;
pub use moe::{Experts, MoeFeedForward, MoeInput, SharedExpert};
pub use norm::{LayerNorm, RmsNorm};
pub use qk_norm::{HeadNorm, QkNorm, QkNormPlace};
pub use rope::{Rope, RopeDeclarations};
pub use rope_frequencies::{Llama3Scaling, YarnScaling, base_frequencies};
pub use short_conv::{ShortConv, ShortConvLinears};
pub use temperature::Temperature;
