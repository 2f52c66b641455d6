//! Learned biases of attention by distance, in buckets (T5).

use crate::config::Role;
use crate::kind::{Positive, RecordedFault, ResolveContext, RoleDef};
use crate::options;

/// The largest distance with its own bucket: each head has a table by distance.
const FARTHEST: usize = 1 << 16;

/// Learned biases by distance.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct RelativeBiasConfig {
    /// Role of the values, `[buckets, heads]`.
    pub role: Role,
    /// Buckets in all; with a mask that looks ahead half of them are for keys after the query.
    pub buckets: usize,
    /// The distance from which on all share the last bucket.
    pub max_distance: usize,
}

options! {
    /// Learned biases by distance in buckets (Raffel et al., 2020), added to the scaled scores after the soft cap. With `n`
    /// buckets for a side, distances below `n / 2` have one each; a distance `d` from there on is in bucket
    /// `n / 2 + floor(ln(d / (n / 2)) / ln(max_distance / (n / 2)) * n / 2)`, `n - 1` at most. A bidirectional mask has half of the
    /// buckets for keys after the query; a causal one has all for those before it.
    pub struct RelativeBiasOptions {
        /// Role of the values, a row of one per head for each bucket; one tensor for all layers.
        role: Role = Required,
        /// Buckets in all.
        buckets: Positive<usize> = Key("attention.relative_buckets_count"),
        /// The distance from which on all share the last bucket.
        max_distance: Positive<usize> = Required => guarded,
    }
}

/// The table's values.
pub(super) const RELATIVE_BIAS: RoleDef =
    RoleDef::values("attn_rel_b", &["heads", "buckets"], "Bias of each head by bucket of distance.")
        .given_by("relative_bias")
        .of_model();

/// `sides` is 2 if keys after the query are visible.
pub(super) fn resolve_relative_bias(
    options: RelativeBiasOptions,
    sides: usize,
    at: &mut ResolveContext<'_>,
) -> Result<RelativeBiasConfig, RecordedFault> {
    let RelativeBiasOptions { role, buckets: Positive(buckets), max_distance: Positive(max_distance) } =
        options;
    let near = buckets / sides / 2;
    if near == 0 || !buckets.is_multiple_of(sides) {
        let message =
            format!("{buckets} buckets cannot be shared; expected an even number of at least {}", 2 * sides);
        return at.fault("relative_bias.buckets", message);
    }
    if max_distance <= near || max_distance > FARTHEST {
        let message = format!(
            "{max_distance} is not between {} (distances with a bucket of their own) and {FARTHEST}",
            near + 1
        );
        return at.fault("relative_bias.max_distance", message);
    }
    Ok(RelativeBiasConfig { role, buckets, max_distance })
}
