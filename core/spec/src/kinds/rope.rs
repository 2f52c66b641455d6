//! Rotary positions of attention as a spec defines them. `scaling` reads the scaling of the file.

mod scaling;

use super::none::NoOptions;
use crate::config::Role;
use crate::kind::formulas::as_name;
use crate::kind::{
    Component, FieldType, InnerRope, Lazy, Nested, Positive, RecordedFault, ResolveContext, RoleDef, Sizes,
    Value,
};
use crate::{names, options};
use menagerie_formulas::RopePairs;

pub(crate) use scaling::{applies_scaling, refuse_scaling};

/// Rotary positions (Su et al., 2021).
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RopeConfig {
    /// Which elements form a pair, for the source format of this file.
    #[serde(serialize_with = "as_name")]
    pub pairs: RopePairs,
    /// Leading elements of a head that rotate; even.
    pub dims: usize,
    /// Base of the geometric series of frequencies.
    pub base: f32,
    /// How frequencies are stretched.
    pub scaling: RopeScaling,
}

/// Divisors of the rotary frequencies.
pub(super) const ROPE_FREQS: RoleDef =
    RoleDef::values("rope_freqs", &["rope_dims/2"], "Divisors of the rotary frequencies.")
        .given_by("rope_freqs")
        .around(1.0)
        .of_model();

/// LongRoPE divisors beyond the original context.
pub(super) const ROPE_FACTORS_LONG: RoleDef =
    RoleDef::values("rope_factors_long", &["rope_dims/2"], "LongRoPE divisors beyond the original context.")
        .given_by("rope_factors_long")
        .around(1.0)
        .of_model();

/// LongRoPE divisors up to the original context.
pub(super) const ROPE_FACTORS_SHORT: RoleDef =
    RoleDef::values("rope_factors_short", &["rope_dims/2"], "LongRoPE divisors up to the original context.")
        .given_by("rope_factors_short")
        .around(1.0)
        .of_model();

impl RopeConfig {
    /// The first position of a second regime of frequencies, if there is one.
    pub(super) fn regime_limit(&self) -> Option<usize> {
        match self.scaling {
            RopeScaling::LongRope { original_context, .. } => Some(original_context),
            RopeScaling::Component { long_after, .. } => long_after,
            _ => None,
        }
    }

    /// Values of the symbols of the tensors of divisors.
    pub fn sizes(&self, into: &mut Sizes) {
        into.set("rope_dims", self.dims);
        match &self.scaling {
            RopeScaling::Factors { role } => into.role("rope_freqs", Some(role)),
            RopeScaling::LongRope { short, long, .. } => {
                into.role("rope_factors_long", Some(long));
                into.role("rope_factors_short", Some(short));
            }
            RopeScaling::None
            | RopeScaling::Linear { .. }
            | RopeScaling::Yarn { .. }
            | RopeScaling::Llama3 { .. }
            | RopeScaling::Proportional { .. }
            | RopeScaling::Component { .. } => {}
        }
    }
}

options! {
    /// Rotary positions.
    pub struct RopeOptions {
        /// The only kind.
        kind: RotaryKind = Required,
        /// Which elements form a pair; usually per source.
        pairs: RopePairs = Required => guarded,
        /// Leading elements of a head that rotate.
        dims: usize = Key("rope.dimension_count"),
        /// Base of the geometric series of frequencies.
        base: Positive<f32> = Required => guarded,
        /// The scalings that a file may have; absent = none.
        scaling: Option<ScalingOptions> = Absent,
        /// The component that computes frequencies and magnitude; replaces `scaling`.
        frequencies: Option<InnerRope> = Absent => guarded,
        /// Number of tokens up to which a sequence uses the frequencies of a context of that length; longer sequences use
        /// those of the model's context, and so do all sequences without this option. Requires `frequencies`.
        long_after: Option<Positive<usize>> = Absent => guarded,
    }
}

names! {
    /// Kind of a rope.
    pub enum RotaryKind {
        /// Pairs of elements are rotated by position times frequency.
        Rotary = "rotary",
    }
}

names! {
    /// Rounding of YaRN's correction range.
    pub enum Rounding {
        /// To whole dims.
        WholeDims = "whole-dims",
        /// None.
        Exact = "exact",
    }
}

/// How rope frequencies are stretched.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Divided by `factor`.
    Linear {
        /// Divisor of every frequency.
        factor: f32,
    },
    /// YaRN (Peng et al., 2023).
    Yarn {
        /// Divisor of the interpolated frequencies.
        factor: f32,
        /// Context the model was first trained with, in tokens.
        original_context: f32,
        /// Rotations above which a dimension is not interpolated.
        beta_fast: f32,
        /// Rotations below which a dimension is fully interpolated.
        beta_slow: f32,
        /// The whole multiplier of cos and sin.
        magnitude: f32,
        /// Rounding of the correction range.
        rounding: Rounding,
    },
    /// Llama 3 formula from numbers (HF config only; a GGUF holds the tensor instead).
    Llama3 {
        /// Divisor of low frequencies.
        factor: f32,
        /// `low_freq_factor`.
        low: f32,
        /// `high_freq_factor`.
        high: f32,
        /// Context the model was first trained with, in tokens.
        original_context: f32,
    },
    /// Of the pairs, the first `share` turn and the others stand (HF config only; a GGUF holds the tensor instead).
    Proportional {
        /// From 0 to 1; pairs are rounded down.
        share: f32,
    },
    /// Divisors in the tensor of this role, `[dims / 2]`.
    Factors {
        /// Role, `rope_freqs`.
        role: Role,
    },
    /// LongRoPE: one of two divisor tensors, by the sequence's rope regime.
    LongRope {
        /// Role of the divisors up to `original_context` tokens.
        short: Role,
        /// Role of the divisors beyond.
        long: Role,
        /// Tokens up to which the short divisors hold.
        original_context: usize,
        /// Multiplies cos and sin, in both regimes.
        magnitude: f32,
    },
    /// Frequencies and magnitude of a registered component.
    Component {
        /// The component.
        component: Component,
        /// Tokens of the model's context.
        context: usize,
        /// Tokens up to which a sequence has the frequencies of a context of that length.
        long_after: Option<usize>,
    },
}

names! {
    /// A rope scaling a spec may accept.
    pub enum ScalingKind {
        /// Frequencies divided by `rope.scaling.factor`.
        Linear = "linear",
        /// YaRN (Peng et al., 2023), with `rope.scaling.factor` and its own keys.
        Yarn = "yarn" => &[
            "rope.scaling.original_context_length",
            "rope.scaling.yarn_beta_fast",
            "rope.scaling.yarn_beta_slow",
            "rope.scaling.yarn_ext_factor",
            "rope.scaling.yarn_attn_factor",
        ],
        /// The formula of Llama 3, from config keys.
        Llama3 = "llama3" => &[
            "rope.scaling.low_freq_factor",
            "rope.scaling.high_freq_factor",
            "rope.scaling.original_context_length",
        ],
        /// Of the pairs, the first share turns and the others stand: from config keys.
        Proportional = "proportional" => &["rope.scaling.turning_share"],
        /// Divisors in the tensor `rope_freqs`.
        Factors = "factors",
        /// Divisors in the tensors `rope_factors_long` and `rope_factors_short`.
        LongRope = "longrope" => &["rope.scaling.original_context_length"],
    }
}

impl Value for Vec<ScalingKind> {
    const TYPE: FieldType = FieldType::Names(<ScalingKind as crate::kind::NameEnum>::LIST);

    fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
        at.names(index)
    }
}

options! {
    /// The scalings that a file may have.
    pub struct ScalingOptions {
        /// Accepted scalings; `none` is always accepted.
        accept: Vec<ScalingKind> = Required,
        /// Condition; where it is false, the accepted scaling is not applied.
        when: Option<Lazy<bool>> = Absent => guarded,
        /// It has no options.
        linear: Option<NoOptions> = Absent,
        /// Options of yarn.
        yarn: Lazy<YarnOptions> = Listed,
        /// It has no options.
        llama3: Option<NoOptions> = Absent,
        /// It has no options.
        proportional: Option<NoOptions> = Absent,
        /// It has no options.
        factors: Option<NoOptions> = Absent,
        /// Options of longrope.
        longrope: Lazy<LongRopeOptions> = Listed,
    }
}

options! {
    /// Options of yarn.
    pub struct YarnOptions {
        /// The whole multiplier of cos and sin.
        magnitude: Option<f32> = Computed {
            how: "rope.scaling.attn_factor * (1 + 0.1 * ln(factor))",
            reads: &["rope.scaling.attn_factor"],
        } => guarded,
        /// Rounding of the correction range.
        round: Rounding = Name("whole-dims") => guarded,
    }
}

options! {
    /// Options of longrope.
    pub struct LongRopeOptions {
        /// Tokens up to which the short divisors hold.
        original_context: Option<Positive<usize>> = Computed {
            how: "rope.scaling.original_context_length",
            reads: &["rope.scaling.original_context_length"],
        } => guarded,
        /// The whole multiplier of cos and sin, in both regimes.
        magnitude: Option<Positive<f32>> = Computed {
            how: "rope.scaling.attn_factor",
            reads: &["rope.scaling.attn_factor"],
        } => guarded,
    }
}

/// The rope of one layer, whose key heads have `key_dim` elements.
pub(crate) fn resolve_rope(
    rope: Nested<RopeOptions>,
    key_dim: usize,
    at: &mut ResolveContext<'_>,
) -> Result<RopeConfig, RecordedFault> {
    let mut at = at.at(&rope);
    let RopeOptions {
        kind: RotaryKind::Rotary,
        pairs,
        dims,
        base: Positive(base),
        scaling,
        frequencies,
        long_after,
    } = rope.options;
    let scaling = match frequencies {
        Some(InnerRope(component)) => {
            let long_after = long_after.map(|Positive(tokens)| tokens);
            scaling::of_component(component, long_after, scaling.is_some(), &mut at)
        }
        None if long_after.is_some() => {
            at.fault("long_after", "it belongs to `frequencies`, which is missing")
        }
        None => scaling::resolve(scaling, &mut at),
    };
    if dims == 0 || dims % 2 != 0 || dims > key_dim {
        let message =
            format!("{dims} dims rotate; expected an even number up to {key_dim}, the size of a key head");
        return at.fault("dims", message);
    }
    Ok(RopeConfig { pairs, dims, base, scaling: scaling? })
}
