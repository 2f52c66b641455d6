//! [`AttentionBiases`]: learned terms of attention scores.

use crate::param::Param;

/// The learned terms of an attention's scores, besides [`menagerie_formulas::AttentionShape::alibi`].
#[derive(Clone, Copy, Default)]
pub struct AttentionBiases<'a> {
    /// `[heads]`: logits that take part in the softmax and have no value.
    pub sinks: Option<&'a Param>,
    /// `[heads, 2 * reach + 1]` with any reach: the bias that is added to the capped score of a key `d` positions after
    /// the query, at index `reach + d`. Keys that are farther away get the value at the nearer end. Not together with
    /// ALiBi.
    pub distances: Option<&'a Param>,
}
