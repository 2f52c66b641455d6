//! Rope configs to frequencies.

use menagerie_model as model;
use menagerie_model::components::{Llama3Scaling, Rope, YarnScaling, base_frequencies};
use menagerie_registry::{Part, Parts};
use menagerie_spec::config::{RopeConfig, RopePairs, RopeScaling, Rounding};

/// Every frequency of a rope, in both regimes where there are two.
pub(super) fn rope(config: &RopeConfig, parts: &mut dyn Parts) -> Option<Rope> {
    let RopeConfig { pairs, dims, base, scaling } = config;
    let (base, dims) = (*base, *dims);
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
        RopeScaling::Factors { role } => plain(Some(&parts.values(role, Part::Main)?)),
        // The limit of the short regime is one of the whole model: see `model_shape`.
        RopeScaling::LongRope { short, long, magnitude: whole, original_context: _ } => {
            magnitude = *whole;
            let (short, long) = (parts.values(short, Part::Main), parts.values(long, Part::Main));
            long_frequencies = Some(plain(Some(&long?)));
            plain(Some(&short?))
        }
    };
    if frequencies.iter().chain(long_frequencies.iter().flatten()).any(|value| !value.is_finite()) {
        parts.fault(&format!("rope: base {base} and its scaling give frequencies that are no numbers"));
        return None;
    }
    let pairs = match pairs {
        RopePairs::Adjacent => model::RopePairs::Adjacent,
        RopePairs::Halves => model::RopePairs::Halves,
    };
    Some(Rope { pairs, frequencies, long_frequencies, magnitude })
}
