//! Frequencies of rope configs.

use menagerie_model::components::{
    FrequencyQuestion, Llama3Scaling, Rope, ScaledFrequencies, YarnScaling, base_frequencies,
};
use menagerie_registry::{BuildResult, ComponentParts, TensorPart, or_fault};
use menagerie_spec::config::{RopeConfig, RopeScaling, Rounding};
use menagerie_spec::kind::Component;

/// Most rotated elements of a head; published models have up to 256. The limit is needed because frequencies are computed
/// before a tensor confirms the width of heads.
const MOST_DIMS: usize = 1 << 16;

/// The frequencies of a rope, for short and for long contexts if they differ.
pub(super) fn rope(config: &RopeConfig, parts: &mut dyn ComponentParts) -> BuildResult<Rope> {
    let RopeConfig { pairs, dims, base, scaling } = config;
    let (base, dims) = (*base, *dims);
    supported(dims, parts)?;
    let plain = |divisors: Option<&[f32]>| base_frequencies(base, dims, divisors);
    let mut long_frequencies = None;
    let mut magnitude = 1.0;
    let frequencies = match scaling {
        RopeScaling::None => plain(None),
        RopeScaling::Linear { factor } => plain(Some(&vec![*factor; dims / 2])),
        &RopeScaling::Yarn { factor, original_context, beta_fast, beta_slow, magnitude: whole, rounding } => {
            magnitude = whole;
            let whole_dims = rounding == Rounding::WholeDims;
            YarnScaling { factor, original_context, beta_fast, beta_slow, whole_dims }.frequencies(base, dims)
        }
        &RopeScaling::Llama3 { factor, low, high, original_context } => {
            Llama3Scaling { factor, low, high, original_context }.frequencies(base, dims)
        }
        RopeScaling::Proportional { share } => {
            let turning = (share * dims as f32 / 2.0) as usize;
            let divisor = |pair: usize| if pair < turning { 1.0 } else { f32::INFINITY };
            plain(Some(&(0..dims / 2).map(divisor).collect::<Vec<_>>()))
        }
        RopeScaling::Factors { role } => plain(Some(&parts.values(role, TensorPart::Main)?)),
        // The limit of the short regime applies to the whole model: see `model_shape`.
        RopeScaling::LongRope { short, long, magnitude: whole, original_context: _ } => {
            magnitude = *whole;
            let (short, long) = (parts.values(short, TensorPart::Main), parts.values(long, TensorPart::Main));
            long_frequencies = Some(plain(Some(&long?)));
            plain(Some(&short?))
        }
        RopeScaling::Component { component, context, long_after } => {
            let place = (base, dims);
            let scaled = of_component(component, place, *context, parts);
            match long_after {
                None => {
                    let scaled = scaled?;
                    magnitude = scaled.magnitude;
                    scaled.frequencies
                }
                Some(limit) => {
                    let short = of_component(component, place, *limit, parts);
                    let (short, long) = (short?, scaled?);
                    magnitude = one_magnitude(component, &short, &long, parts)?;
                    long_frequencies = Some(long.frequencies);
                    short.frequencies
                }
            }
        }
    };
    if frequencies.iter().chain(long_frequencies.iter().flatten()).any(|value| !value.is_finite()) {
        return Err(parts.fault(&format!(
            "rope: base {base} and its scaling give frequencies that are not finite; check the rope keys \
             of the config"
        )));
    }
    Ok(Rope { pairs: *pairs, frequencies, long_frequencies, magnitude })
}

/// Checks the number of rotated elements.
fn supported(dims: usize, parts: &mut dyn ComponentParts) -> BuildResult<()> {
    if dims <= MOST_DIMS {
        return Ok(());
    }
    Err(parts.fault(&format!(
        "rope: {dims} elements of a head rotate, but at most {MOST_DIMS} are supported; check the rope \
         keys of the config"
    )))
}

/// The frequencies from a component, for a context length in tokens.
fn of_component(
    component: &Component,
    (base, rotated): (f32, usize),
    context_length: usize,
    parts: &mut dyn ComponentParts,
) -> BuildResult<ScaledFrequencies> {
    let made = parts.rope_frequencies(component)?;
    let answer = made.frequencies(&FrequencyQuestion { base, rotated, context_length });
    let scaled = or_fault(parts, answer)?;
    if scaled.frequencies.len() == rotated / 2 && scaled.magnitude.is_finite() {
        return Ok(scaled);
    }
    let (name, found) = (component.kind().name, scaled.frequencies.len());
    Err(parts.fault(&format!(
        "rope `{name}`: expected {} frequencies and a finite magnitude, found {found} frequencies and the magnitude {}",
        rotated / 2,
        scaled.magnitude
    )))
}

/// The magnitude, which both regimes share.
fn one_magnitude(
    component: &Component,
    short: &ScaledFrequencies,
    long: &ScaledFrequencies,
    parts: &mut dyn ComponentParts,
) -> BuildResult<f32> {
    if short.magnitude == long.magnitude {
        return Ok(short.magnitude);
    }
    Err(parts.fault(&format!(
        "rope `{}`: expected one magnitude, found {} up to `long_after` and {} beyond",
        component.kind().name,
        short.magnitude,
        long.magnitude
    )))
}
