//! [`QkNorm`]: norms on queries and keys.

use crate::ops::HeadNorm;

/// Where a QK-norm is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNormPlace {
    /// Between projection and rope (Qwen3, Gemma 3).
    BeforeRope,
    /// After rope (Hunyuan).
    AfterRope,
}

/// Norms of queries and keys, each with its own weights.
#[derive(Clone, Debug)]
pub struct QkNorm {
    /// On queries.
    pub query: HeadNorm,
    /// On keys.
    pub key: HeadNorm,
    /// Before or after rope.
    pub place: QkNormPlace,
}
