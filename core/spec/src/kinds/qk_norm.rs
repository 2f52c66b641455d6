//! Norms on queries, keys and values of an attention.

use super::norm::{NormWeight, RmsConfig};
use crate::kind::{Component, NormHere, RecordedFault, ResolveContext};
use crate::{names, options};

/// Norm on queries and keys (roles `attn_q_norm`, `attn_k_norm`).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct QkNormConfig {
    /// Elements over which the mean runs.
    pub over: QkNormOver,
    /// Where it is applied.
    pub at: QkNormAt,
    /// The norm on queries.
    pub norm: Component,
    /// The norm on keys: the same, or without a weight.
    pub key_norm: Component,
}

options! {
    /// Norm on queries and keys (roles `attn_q_norm`, `attn_k_norm`).
    pub struct QkNormOptions {
        /// Elements over which the mean runs; the shape of the weight decides whether heads share it.
        over: QkNormOver = Required => guarded,
        /// Where it is applied.
        at: QkNormAt = Required => guarded,
        /// Whether the norm on keys has a weight too.
        key_weight: NormWeight = Name("own") => guarded,
        /// The norm.
        norm: NormHere = Fields,
    }
}

/// Norm on values (role `attn_v_norm` where it has a weight).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ValueNormConfig {
    /// Elements over which the mean runs.
    pub over: QkNormOver,
    /// The norm.
    pub norm: Component,
}

options! {
    /// Norm on values, before they are stored (role `attn_v_norm` where it has a weight).
    pub struct ValueNormOptions {
        /// Elements over which the mean runs.
        over: QkNormOver = Name("head") => guarded,
        /// The norm.
        norm: NormHere = Fields,
    }
}

names! {
    /// What the mean of a QK-norm runs over.
    pub enum QkNormOver {
        /// One head.
        Head = "head",
        /// All heads of the projection together.
        AllHeads = "all-heads",
    }
}

names! {
    /// Where a QK-norm is applied.
    pub enum QkNormAt {
        /// Between projection and rope.
        BeforeRope = "before-rope",
        /// After rope.
        AfterRope = "after-rope",
    }
}

pub(super) fn resolve_qk_norm(
    options: QkNormOptions,
    at: &mut ResolveContext<'_>,
) -> Result<QkNormConfig, RecordedFault> {
    let QkNormOptions { over, at: place, key_weight, norm } = options;
    let norm = at.norm(&norm, &["attn_q_norm", "attn_k_norm"])?;
    let bare = match key_weight {
        NormWeight::Own => Some(norm.clone()),
        NormWeight::None => norm.map::<RmsConfig>(|norm| norm.weight = NormWeight::None),
    };
    let Some(key_norm) = bare else {
        let message = format!("a norm of kind `{}` cannot omit its weight for keys only", norm.kind().name);
        return at.fault("qk_norm.key_weight", message);
    };
    Ok(QkNormConfig { over, at: place, norm, key_norm })
}

pub(super) fn resolve_value_norm(
    options: ValueNormOptions,
    at: &mut ResolveContext<'_>,
) -> Result<ValueNormConfig, RecordedFault> {
    let ValueNormOptions { over, norm } = options;
    let norm = at.norm(&norm, &["attn_v_norm"])?;
    Ok(ValueNormConfig { over, norm })
}
