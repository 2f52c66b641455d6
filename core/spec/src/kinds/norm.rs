//! The norms `rms` and `layer`.

use crate::config::BiasRule;
use crate::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};
use crate::{names, options};

names! {
    /// Whether a norm has a weight.
    pub enum NormWeight {
        /// The tensor of the site.
        Own = "own",
        /// None: rows are only normalized.
        None = "none",
    }
}

/// Whether a norm has a bias; `if-present` is already decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormBias {
    /// The `.bias` of the site.
    Own,
    /// None.
    None,
}

/// Root mean square norm (Zhang and Sennrich, 2019): `x / sqrt(mean(x^2) + eps) * (weight + offset)`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RmsConfig {
    /// Added under the root.
    pub eps: f32,
    /// Whether it has a weight.
    pub weight: NormWeight,
    /// Added to the stored weight (0 for GGUF).
    pub offset: f32,
}

options! {
    /// Options of `rms`.
    pub struct RmsOptions {
        /// Added under the root.
        eps: f32 = Required,
        /// Whether it has a weight.
        weight: NormWeight = Name("own") => guarded,
        /// Added to the stored weight; per source where the formats store it differently.
        offset: f32 = Number(0.0) => guarded,
    }
}

/// Tensors of a norm, at the role of its site.
const WEIGHT: RoleDef =
    RoleDef::values("", &["width"], "Multiplies the normalized row.").when("weight").around(1.0);
const BIAS: RoleDef = RoleDef::only_bias("", &["width"], "Added to the normalized row.").when("bias");

impl Definition for RmsConfig {
    type Options = RmsOptions;
    const FAMILY: Family = Family::Norm;
    const NAME: &'static str = "rms";
    const DOC: &'static str =
        "Root mean square (Zhang and Sennrich, 2019): `x / sqrt(mean(x^2) + eps) * weight`.";
    const ROLES: &'static [RoleDef] = &[WEIGHT];

    fn resolve(options: RmsOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let RmsOptions { eps, weight, offset } = options;
        Ok(RmsConfig { eps: epsilon(eps, at)?, weight, offset })
    }

    fn sizes(&self, into: &mut Sizes) {
        let RmsConfig { eps: _, weight, offset: _ } = self;
        into.holds("weight", *weight == NormWeight::Own);
    }
}

/// Layer norm (Ba et al., 2016): `(x - mean(x)) / sqrt(var(x) + eps) * (weight + offset) + bias`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LayerNormConfig {
    /// Added under the root.
    pub eps: f32,
    /// Whether it has a weight.
    pub weight: NormWeight,
    /// Whether it has a bias.
    pub bias: NormBias,
    /// Added to the stored weight (0 for GGUF).
    pub offset: f32,
}

options! {
    /// Options of `layer`.
    pub struct LayerNormOptions {
        /// Added under the root.
        eps: f32 = Required,
        /// Whether it has a weight.
        weight: NormWeight = Name("own") => guarded,
        /// Whether it has a bias.
        bias: BiasRule = Name("required"),
        /// Added to the stored weight; per source where the formats store it differently.
        offset: f32 = Number(0.0) => guarded,
    }
}

impl Definition for LayerNormConfig {
    type Options = LayerNormOptions;
    const FAMILY: Family = Family::Norm;
    const NAME: &'static str = "layer";
    const DOC: &'static str =
        "Mean and variance (Ba et al., 2016): `(x - mean(x)) / sqrt(var(x) + eps) * weight + bias`.";
    const ROLES: &'static [RoleDef] = &[WEIGHT, BIAS];

    fn resolve(options: LayerNormOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let LayerNormOptions { eps, weight, bias, offset } = options;
        let own = match bias {
            BiasRule::None => false,
            BiasRule::Required => weight == NormWeight::Own,
            BiasRule::IfPresent => at.site().iter().any(|role| at.has(&format!("{role}.bias"))),
        };
        let bias = if own { NormBias::Own } else { NormBias::None };
        Ok(LayerNormConfig { eps: epsilon(eps, at)?, weight, bias, offset })
    }

    fn sizes(&self, into: &mut Sizes) {
        let LayerNormConfig { eps: _, weight, bias, offset: _ } = self;
        into.holds("weight", *weight == NormWeight::Own);
        into.holds("bias", *bias == NormBias::Own);
    }
}

fn epsilon(eps: f32, at: &mut ResolveContext<'_>) -> Result<f32, RecordedFault> {
    if eps < 0.0 {
        return at.fault("eps", format!("{eps}; must not be negative"));
    }
    Ok(eps)
}
