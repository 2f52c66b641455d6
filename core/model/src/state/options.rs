//! [`PoolOptions`]: the capacity of a pool.

use menagerie_formulas::KvType;

/// Token rows of a page by default: a multiple of what attention reads at once, small compared to usual windows.
const PAGE_LEN: usize = 256;

/// The capacity of a [`super::StatePool`]. The capacity of all sequences together is independent of the limit of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    /// How rows of per-token states are stored if the states do not choose a type themselves.
    pub kv_type: KvType,
    /// Tokens of all sequences together, however they are distributed.
    pub capacity_tokens: usize,
    /// Token rows of a page.
    pub page_len: usize,
    /// The most tokens of one sequence.
    pub max_sequence_tokens: usize,
    /// Most sequences at once.
    pub sequences: usize,
    /// The most rows of a step: states with a window need room for them in addition to their windows.
    pub step_tokens: usize,
    /// State sets of every sequence: passes over the same tokens that each keep a state of their own (X-LoRA has two).
    pub sets: usize,
}

impl PoolOptions {
    /// Room for one sequence of `tokens` tokens, which may come in one step.
    pub fn one_sequence(kv_type: KvType, tokens: usize) -> Self {
        Self::sequences(kv_type, 1, tokens)
    }

    /// Room for `sequences` sequences of `tokens` tokens each, which may come in one step.
    pub fn sequences(kv_type: KvType, sequences: usize, tokens: usize) -> Self {
        let all = tokens.saturating_mul(sequences);
        Self {
            kv_type,
            capacity_tokens: all,
            page_len: PAGE_LEN,
            max_sequence_tokens: tokens,
            sequences,
            step_tokens: all,
            sets: 1,
        }
    }

    /// The same for steps of at most `tokens` rows.
    pub fn with_step_tokens(self, tokens: usize) -> Self {
        Self { step_tokens: tokens, ..self }
    }

    /// The same with so many state sets for every sequence.
    pub fn with_sets(self, sets: usize) -> Self {
        Self { sets, ..self }
    }

    /// The same with pages of another length.
    pub fn with_page_len(self, tokens: usize) -> Self {
        Self { page_len: tokens, ..self }
    }
}
