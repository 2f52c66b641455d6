//! [`LinearAttentionShape`]: heads and state update of an attention without softmax.

/// The way a row with key `k`, value `v`, decay `a` (the exponential of g) and beta `b` changes the state `S` of a
/// head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateUpdate {
    /// `S = a S + k (b v)^T` (state space duality: Dao and Gu, 2024).
    Add,
    /// `S = a S + k (b (v - (a S)^T k))^T`: what the state already stores for the key is subtracted (the gated delta
    /// rule: Yang et al., 2024).
    Delta,
}

names! {
    /// Which key head a head of values reads, where several share one.
    #[derive(Eq, Hash)]
    pub enum KeySharing {
        /// Heads that share one follow each other: head `h` reads `h / (heads / key_heads)`.
        Consecutive = "consecutive",
        /// Head `h` reads `h % key_heads`.
        Tiled = "tiled",
    }
}

/// Heads of an attention without softmax; each has a state `[key_dim, value_dim]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearAttentionShape {
    /// Heads of values.
    pub heads: usize,
    /// Heads of keys and queries; divides `heads`.
    pub key_heads: usize,
    /// Elements of a key or query.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// Which key head a head reads.
    pub sharing: KeySharing,
    /// How a row changes the state.
    pub update: StateUpdate,
}
