//! The feed-forwards `gated` and `plain`, also as shared experts.

use super::names::{activation, gating};
use crate::array::array_of;
use menagerie_model::components::{GatedFeedForward, PlainFeedForward};
use menagerie_model::{FeedForward, Linear, Norm};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, component};
use menagerie_spec::config::{ActivationConfig, GatedConfig, LimitConfig, NormSite, PlainConfig};

component!(feed_forward GatedConfig, gated);
component!(feed_forward PlainConfig, plain);

/// Roles of a feed-forward.
pub(super) struct DenseRoles {
    pub(super) gate: &'static str,
    pub(super) up: &'static str,
    pub(super) down: &'static str,
}

const DENSE: DenseRoles = DenseRoles { gate: "ffn_gate", up: "ffn_up", down: "ffn_down" };

// The kind's table says whether there are biases.
fn gated(config: &GatedConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn FeedForward>> {
    let GatedConfig { activation, bias: _, inner_norm, limit } = config;
    gated_of(&DENSE, activation, *limit, inner_norm.as_ref(), parts)
}

fn plain(config: &PlainConfig, parts: &mut dyn ComponentParts) -> BuildResult<Box<dyn FeedForward>> {
    let PlainConfig { activation, bias: _, inner_norm } = config;
    plain_of(&DENSE, activation, inner_norm.as_ref(), parts)
}

/// Gate, up and down; gate and up may be one weight.
pub(super) fn gated_of(
    roles: &DenseRoles,
    own: &ActivationConfig,
    limit: Option<LimitConfig>,
    inner_norm: Option<&NormSite>,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn FeedForward>> {
    let gate_and_up = match fused_rows(roles, parts) {
        Some(rows) => fused(roles, rows, parts),
        None => {
            let (gate, up) = (parts.linear(roles.gate), parts.linear(roles.up));
            gate.and_then(|gate| Ok((gate, up?)))
        }
    };
    let down = parts.linear(roles.down);
    let gating = gating(own, limit, parts);
    let (gate, up) = gate_and_up?;
    let inner_norm = norm_of(inner_norm, up.out_features(), parts)?;
    Ok(Box::new(GatedFeedForward { gate, up, down: down?, gating: gating?, inner_norm }))
}

/// The norm before the down projection, if there is one.
fn norm_of(
    site: Option<&NormSite>,
    width: usize,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Option<Box<dyn Norm>>> {
    site.map(|NormSite { role, norm }| parts.norm(role, norm, width)).transpose()
}

/// The rows of gate and up if one matrix contains both: there is no gate tensor, and `up` has twice as many rows as `down`
/// has columns.
fn fused_rows(roles: &DenseRoles, parts: &dyn ComponentParts) -> Option<usize> {
    let size = |role: &str, at: usize| usize::try_from(*parts.dims(role)?.get(at)?).ok();
    let inner = size(roles.down, 0)?;
    let double = size(roles.up, 1)? == inner.checked_mul(2)?;
    (double && !parts.has(roles.gate, TensorPart::Main)).then_some(inner)
}

type Pair = (Box<dyn Linear>, Box<dyn Linear>);

fn fused(roles: &DenseRoles, rows: usize, parts: &mut dyn ComponentParts) -> BuildResult<Pair> {
    let halves = parts.split_linear(roles.up, &[rows, rows], &[])?;
    let [gate, up] = array_of(parts, halves)?;
    Ok((gate, up))
}

/// Up and down.
pub(super) fn plain_of(
    roles: &DenseRoles,
    own: &ActivationConfig,
    inner_norm: Option<&NormSite>,
    parts: &mut dyn ComponentParts,
) -> BuildResult<Box<dyn FeedForward>> {
    let up = parts.linear(roles.up);
    let down = parts.linear(roles.down);
    let activation = activation(own, parts);
    let up = up?;
    let inner_norm = norm_of(inner_norm, up.out_features(), parts)?;
    Ok(Box::new(PlainFeedForward { up, down: down?, activation: activation?, inner_norm }))
}
