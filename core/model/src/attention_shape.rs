//! [`AttentionShape`]: heads, scale and mask of an attention; [`AttentionBiases`]: what its scores get besides.

use crate::param::Param;

/// Which keys a query sees, by their positions in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All up to its own.
    Causal,
    /// The `size` last up to its own: `0 <= query - key < size`.
    Sliding {
        /// Keys seen, the query's own included.
        size: usize,
    },
    /// Those of its own chunk up to its own: `key / size == query / size` (Llama 4).
    Chunked {
        /// Positions per chunk.
        size: usize,
    },
    /// All of the sequence (encoders).
    Bidirectional,
    /// Those at most `size / 2` away, on both sides (ModernBERT).
    Symmetric {
        /// Twice the distance seen.
        size: usize,
    },
}

impl Mask {
    /// Whether a query may see keys after its own, so that a sequence must be computed in one step.
    pub fn looks_ahead(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Symmetric { .. })
    }

    /// Tokens back from a query that stay visible, its own included; absent = all.
    pub fn window(self) -> Option<usize> {
        match self {
            Self::Sliding { size } | Self::Chunked { size } => Some(size),
            Self::Causal | Self::Bidirectional | Self::Symmetric { .. } => None,
        }
    }
}

/// What is the same for all rows of an attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; each serves `heads / kv_heads` query heads that follow each other.
    pub kv_heads: usize,
    /// Elements of a query and key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Multiplies the dot products; usually `1 / sqrt(key_dim)`.
    pub scale: f32,
    /// Soft cap on the scaled scores: `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// Who sees whom.
    pub mask: Mask,
    /// Largest bias of ALiBi (Press et al., 2021): `slope * |query - key|` is taken from the capped scores.
    pub alibi: Option<f32>,
}

/// What an attention adds to its scores beside [`AttentionShape::alibi`].
#[derive(Clone, Copy, Default)]
pub struct AttentionBiases<'a> {
    /// `[heads]`: logits that take part in the softmax and have no value.
    pub sinks: Option<&'a Param>,
    /// `[heads, 2 * reach + 1]`, any reach: what the capped score of a key `d` positions after the query gets added, at
    /// index `reach + d`; farther keys get what the ends say. Not together with ALiBi.
    pub distances: Option<&'a Param>,
}
