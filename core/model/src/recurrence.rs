//! Operands of [`crate::Backend::linear_attention`] and [`crate::Backend::selective_scan`].

use crate::param::Param;
use crate::rows::Rows;

/// Natural logarithms of the factors that the state is multiplied by before a row changes it.
#[derive(Clone, Copy)]
pub enum LogDecay<'a> {
    /// One per head, the same for all rows: `[heads]`.
    Fixed(&'a Param),
    /// One per row and head, `[T, heads]`, or one per element of its key too, `[T, heads * key_dim]`.
    Rows(&'a Rows),
}

/// Rows of an attention without softmax.
#[derive(Clone, Copy)]
pub struct LinearAttentionInputs<'a> {
    /// `[T, key_heads * key_dim]`.
    pub queries: &'a Rows,
    /// `[T, key_heads * key_dim]`.
    pub keys: &'a Rows,
    /// `[T, heads * value_dim]`.
    pub values: &'a Rows,
    /// What the state decays by.
    pub log_decay: LogDecay<'a>,
    /// `[T, heads]`; absent = 1.
    pub strength: Option<&'a Rows>,
    /// `[heads]`: multiplied by the row's value and added to its result.
    pub skip: Option<&'a Param>,
}

/// Rows of a selective scan of `C` channels with `N` elements of state each.
#[derive(Clone, Copy)]
pub struct SelectiveScanInputs<'a> {
    /// `[T, C]`.
    pub x: &'a Rows,
    /// Time steps, `[T, C]`.
    pub dt: &'a Rows,
    /// The input of the state, `[T, N]`.
    pub b: &'a Rows,
    /// The vector that reads the state, `[T, N]`.
    pub c: &'a Rows,
    /// `[N * C]`, a row of channels per element of state.
    pub a: &'a Param,
    /// `[C]`: multiplied by `x` and added to the result.
    pub skip: &'a Param,
}
