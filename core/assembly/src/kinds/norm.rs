//! The norms `rms` and `layer`.

use menagerie_model::Norm;
use menagerie_model::components::{LayerNorm, RmsNorm};
use menagerie_registry::{NormPlace, Part, Parts, component, where_given};
use menagerie_spec::config::{LayerNormConfig, NormBias, NormWeight, RmsConfig};

component!(norm RmsConfig, rms);
component!(norm LayerNormConfig, layer);

fn rms(config: &RmsConfig, parts: &mut dyn Parts, place: &NormPlace) -> Option<Box<dyn Norm>> {
    let RmsConfig { eps, weight, offset } = *config;
    let weight = where_given((weight == NormWeight::Own).then(|| weight_of(parts, place, offset)))?;
    Some(Box::new(RmsNorm { weight, eps }))
}

fn layer(config: &LayerNormConfig, parts: &mut dyn Parts, place: &NormPlace) -> Option<Box<dyn Norm>> {
    let LayerNormConfig { eps, weight, bias, offset } = *config;
    let weight = where_given((weight == NormWeight::Own).then(|| weight_of(parts, place, offset)));
    let bias = where_given((bias == NormBias::Own).then(|| {
        let values = parts.values(place.role, Part::Bias)?;
        parts.vector(place.role, values)
    }));
    Some(Box::new(LayerNorm { weight: weight?, bias: bias?, eps }))
}

/// The stored weight with the offset added.
fn weight_of(parts: &mut dyn Parts, place: &NormPlace, offset: f32) -> Option<menagerie_model::Param> {
    let mut values = parts.values(place.role, Part::Main)?;
    if offset != 0.0 {
        values.iter_mut().for_each(|value| *value += offset);
    }
    parts.vector(place.role, values)
}
