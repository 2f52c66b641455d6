//! [`AttentionBiases`]: what an attention adds to its scores.

use crate::param::Param;

/// What an attention adds to its scores beside [`menagerie_formulas::AttentionShape::alibi`].
#[derive(Clone, Copy, Default)]
pub struct AttentionBiases<'a> {
    /// `[heads]`: logits that take part in the softmax and have no value.
    pub sinks: Option<&'a Param>,
    /// `[heads, 2 * reach + 1]`, any reach: what the capped score of a key `d` positions after the query gets added, at
    /// index `reach + d`; farther keys get what the ends say. Not together with ALiBi.
    pub distances: Option<&'a Param>,
}
