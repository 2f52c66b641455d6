//! The norms `rms` and `layer`.

use menagerie_model::Norm;
use menagerie_model::components::{LayerNorm, RmsNorm};
use menagerie_registry::{BuildResult, ComponentParts, NormTarget, TensorPart, component};
use menagerie_spec::config::{LayerNormConfig, NormBias, NormWeight, RmsConfig};

component!(norm RmsConfig, rms);
component!(norm LayerNormConfig, layer);

fn rms(config: &RmsConfig, parts: &mut dyn ComponentParts, place: &NormTarget) -> BuildResult<Box<dyn Norm>> {
    let RmsConfig { eps, weight, offset } = *config;
    let weight = (weight == NormWeight::Own).then(|| weight_of(parts, place, offset)).transpose()?;
    Ok(Box::new(RmsNorm { weight, eps }))
}

fn layer(
    config: &LayerNormConfig,
    parts: &mut dyn ComponentParts,
    place: &NormTarget,
) -> BuildResult<Box<dyn Norm>> {
    let LayerNormConfig { eps, weight, bias, offset } = *config;
    let weight = (weight == NormWeight::Own).then(|| weight_of(parts, place, offset)).transpose();
    let bias = (bias == NormBias::Own)
        .then(|| {
            let values = parts.values(place.role, TensorPart::Bias)?;
            parts.vector(place.role, values)
        })
        .transpose();
    Ok(Box::new(LayerNorm { weight: weight?, bias: bias?, eps }))
}

/// The stored weight with the offset added.
fn weight_of(
    parts: &mut dyn ComponentParts,
    place: &NormTarget,
    offset: f32,
) -> BuildResult<menagerie_model::Param> {
    let mut values = parts.values(place.role, TensorPart::Main)?;
    if offset != 0.0 {
        values.iter_mut().for_each(|value| *value += offset);
    }
    parts.vector(place.role, values)
}
