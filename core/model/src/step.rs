//! [`InferenceStep`]: the only source of "are we decoding".

/// What a step of a sequence is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferenceStep {
    /// Part of a prompt.
    Prefill {
        /// Tokens in this chunk.
        chunk_tokens: usize,
        /// Position of the chunk's first token.
        chunk_start_position: usize,
        /// Tokens of the whole prompt, this chunk and earlier ones included.
        total_prompt_tokens: usize,
        /// Whether logits of the prompt's last token are requested.
        is_final_chunk: bool,
    },
    /// One generated token is fed back.
    Decode {
        /// Its position.
        current_position: usize,
    },
}

impl InferenceStep {
    /// Tokens that the sequence has once this step is done, including the rest of its prompt.
    pub fn total_tokens(&self) -> usize {
        match *self {
            Self::Prefill { total_prompt_tokens, .. } => total_prompt_tokens,
            Self::Decode { current_position } => current_position + 1,
        }
    }
}

/// Which divisors of a LongRoPE model the cached keys of a sequence were rotated with.
///
/// Resolved from the total length known when the prompt begins (HF: `seq_len > original_max_position_embeddings`);
/// when decoding crosses the limit the pipeline rewinds and prefills again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RopeRegime {
    /// Up to the original context.
    #[default]
    Short,
    /// Beyond it.
    Long,
}

impl RopeRegime {
    /// The regime of a sequence of `total_tokens` in a model whose original context is `limit` (absent: one regime
    /// only).
    pub fn for_length(total_tokens: usize, limit: Option<usize>) -> Self {
        match limit {
            Some(limit) if total_tokens > limit => Self::Long,
            _ => Self::Short,
        }
    }
}
