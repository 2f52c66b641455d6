//! The norm `dynamic-tanh`: `weight * tanh(alpha * x) + bias` (Zhu et al., "Transformers without Normalization", 2025).

use menagerie_model::{Norm, Param, Result, Rows, TransformContext};
use menagerie_registry::{BuildResult, ComponentParts, NormTarget, TensorPart, component};
use menagerie_spec::kind::{Definition, Family, RecordedFault, ResolveContext, RoleDef, Sizes};
use menagerie_spec::options;

/// A dynamic tanh.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct DynamicTanhConfig {
    /// Multiplies inside the tanh.
    pub alpha: f32,
}

options! {
    /// Options of `dynamic-tanh`.
    pub struct DynamicTanhOptions {
        /// Multiplies inside the tanh.
        alpha: f32 = Required => guarded,
    }
}

impl Definition for DynamicTanhConfig {
    type Options = DynamicTanhOptions;
    const FAMILY: Family = Family::Norm;
    const NAME: &'static str = "dynamic-tanh";
    const DOC: &'static str = "`weight * tanh(alpha * x) + bias` (Zhu et al., 2025).";
    const ROLES: &'static [RoleDef] = &[
        RoleDef::values("", &["width"], "Multiplies the row."),
        RoleDef::only_bias("", &["width"], "Added to the row."),
    ];

    fn resolve(options: DynamicTanhOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
        let DynamicTanhOptions { alpha } = options;
        if alpha <= 0.0 {
            return at.fault("alpha", format!("{alpha}, expected a positive number"));
        }
        Ok(Self { alpha })
    }

    fn sizes(&self, _into: &mut Sizes) {}
}

component!(norm DynamicTanhConfig, build);

fn build(
    config: &DynamicTanhConfig,
    parts: &mut dyn ComponentParts,
    place: &NormTarget,
) -> BuildResult<Box<dyn Norm>> {
    let DynamicTanhConfig { alpha } = *config;
    let weight = parts.values(place.role, TensorPart::Main);
    let bias = parts.values(place.role, TensorPart::Bias);
    let (weight, bias) = (parts.vector(place.role, weight?), parts.vector(place.role, bias?));
    Ok(Box::new(DynamicTanh { alpha, weight: weight?, bias: bias? }))
}

struct DynamicTanh {
    alpha: f32,
    weight: Param,
    bias: Param,
}

impl Norm for DynamicTanh {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let scaled = backend.scale(backend.copy(x)?, self.alpha)?;
        // A cap of 1 is the tanh itself.
        let bounded = backend.softcap(scaled, 1.0)?;
        backend.add_vector(backend.multiply_vector(bounded, &self.weight)?, &self.bias)
    }
}
