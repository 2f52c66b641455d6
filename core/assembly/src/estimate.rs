//! [`MemoryEstimate`]: what a model will need, before it is loaded.

use menagerie_model::state::KvType;
use menagerie_spec::ModelConfig;
use menagerie_spec::config::MixerConfig;

/// Bytes a model will need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEstimate {
    /// Weights, mapped.
    pub weights: u64,
    /// Keys and values of all sequences at full context.
    pub state: u64,
    /// Keys and values of one token.
    pub state_per_token: u64,
}

impl MemoryEstimate {
    /// Everything together.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.state)
    }
}

/// What `sequences` sequences of `context` tokens need beside `weights` bytes of weights.
///
/// A head that does not fill whole blocks of `kv_type` is counted as f32; the state store refuses it.
pub fn estimate(
    config: &ModelConfig,
    weights: u64,
    kv_type: KvType,
    context: usize,
    sequences: usize,
) -> MemoryEstimate {
    let row = |elements: usize| kv_type.row_bytes(elements).unwrap_or(elements.saturating_mul(4)) as u64;
    let per_layer = config.layers.iter().map(|layer| match &layer.mixer {
        MixerConfig::Attention(attention) => {
            let heads = attention.kv_heads;
            row(heads.saturating_mul(attention.key_dim)) + row(heads.saturating_mul(attention.value_dim))
        }
        _ => 0,
    });
    let state_per_token: u64 = per_layer.sum();
    let tokens = (context as u64).saturating_mul(sequences as u64);
    MemoryEstimate { weights, state: state_per_token.saturating_mul(tokens), state_per_token }
}
