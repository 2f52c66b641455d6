//! [`AttentionShape`]: heads, scale and mask of an attention; [`RopePairs`].

use std::ops::Range;

/// The keys that a query sees, by their positions in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Those at most `size / 2` away, on both sides (ModernBERT, EmbeddingGemma).
    Symmetric {
        /// Twice the largest distance.
        size: usize,
    },
}

impl Mask {
    /// Whether a query may see keys after its own. A sequence must then be computed in one step.
    pub fn is_bidirectional(self) -> bool {
        matches!(self, Self::Bidirectional | Self::Symmetric { .. })
    }

    /// Tokens that a query sees at most, its own included; `None` = all.
    pub fn window(self) -> Option<usize> {
        match self {
            Self::Sliding { size } | Self::Chunked { size } => Some(size),
            Self::Causal | Self::Bidirectional | Self::Symmetric { .. } => None,
        }
    }

    /// Whether the query at position `query` sees the key at position `key`.
    #[inline]
    pub fn sees(self, query: usize, key: usize) -> bool {
        match self {
            Self::Causal => key <= query,
            Self::Sliding { size } => key <= query && query - key < size,
            Self::Chunked { size } => key <= query && key / size == query / size,
            Self::Bidirectional => true,
            Self::Symmetric { size } => query.abs_diff(key) <= size / 2,
        }
    }

    /// The positions of the keys that the query at position `query` sees, among `total` keys: always one interval. Its
    /// start never moves back from one query to the next, so earlier keys may be dropped.
    #[inline]
    pub fn visible(self, query: usize, total: usize) -> Range<usize> {
        match self {
            Self::Causal => 0..query + 1,
            Self::Sliding { size } => (query + 1).saturating_sub(size)..query + 1,
            Self::Chunked { size } => query / size * size..query + 1,
            Self::Bidirectional => 0..total,
            Self::Symmetric { size } => {
                query.saturating_sub(size / 2)..total.min(query.saturating_add(size / 2 + 1))
            }
        }
    }
}

/// The part of an attention that is the same for all rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionShape {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; each serves `heads / kv_heads` consecutive query heads.
    pub kv_heads: usize,
    /// Elements of a query and key head.
    pub key_dim: usize,
    /// Elements of a value head.
    pub value_dim: usize,
    /// Multiplies the dot products; usually `1 / sqrt(key_dim)`.
    pub scale: f32,
    /// Soft cap on the scaled scores: `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// The keys that each query sees.
    pub mask: Mask,
    /// Largest bias of ALiBi (Press et al., 2021): `slope * |query - key|` is subtracted from the capped scores.
    pub alibi: Option<f32>,
}

names! {
    /// Which elements of a head form a rotated pair.
    #[derive(Eq, Hash)]
    pub enum RopePairs {
        /// `(2j, 2j + 1)`, as in the original paper and in GGUF files of Llama.
        Adjacent = "adjacent",
        /// `(j, j + dims / 2)`, as in GPT-NeoX and Hugging Face transformers.
        Halves = "halves",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_exactly_the_keys_that_the_mask_sees() {
        let masks = [
            Mask::Causal,
            Mask::Sliding { size: 1 },
            Mask::Sliding { size: 7 },
            Mask::Chunked { size: 5 },
            Mask::Bidirectional,
            Mask::Symmetric { size: 1 },
            Mask::Symmetric { size: 8 },
            Mask::Symmetric { size: 100 },
        ];
        for mask in masks {
            for query in 0..30 {
                let seen: Vec<usize> = (0..30).filter(|&key| mask.sees(query, key)).collect();
                assert_eq!(seen, mask.visible(query, 30).collect::<Vec<_>>(), "{mask:?} {query}");
            }
        }
    }
}
