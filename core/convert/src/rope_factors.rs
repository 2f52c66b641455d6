//! Divisors of rope frequencies, which GGUF files store as a tensor.

use menagerie_spec::config::{RopeConfig, RopeScaling};
use menagerie_spec::{KeySource, MetadataValue};

/// The divisor of each frequency in Llama 3.1's scaling (transformers, `_compute_llama3_parameters`).
pub(crate) fn llama3_factors(rope: &RopeConfig, keys: &dyn KeySource) -> Option<Vec<f32>> {
    let number = |key: &str| match keys.get(key)? {
        MetadataValue::Number(number) => Some(number),
        MetadataValue::Integer(whole) => Some(whole as f64),
        _ => None,
    };
    let factor = number("rope.scaling.factor")?;
    let (low, high) = (number("rope.scaling.low_freq_factor")?, number("rope.scaling.high_freq_factor")?);
    let length = number("rope.scaling.original_context_length")?;
    let base = number("rope.freq_base")?;
    let one = |at: usize| {
        let frequency = libm::pow(base, -2.0 * at as f64 / rope.dims as f64);
        let wave = std::f64::consts::TAU / frequency;
        if wave < length / high {
            return 1.0;
        }
        if wave > length / low {
            return factor as f32;
        }
        let smooth = (length / wave - low) / (high - low);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    };
    Some((0..rope.dims / 2).map(one).collect())
}

/// The divisor of each frequency if only a share of the pairs rotates: 1 for these, 1e30 for the others (as in llama.cpp's
/// converter).
pub(crate) fn proportional_factors(rope: &RopeConfig) -> Option<Vec<f32>> {
    let RopeScaling::Proportional { share } = rope.scaling else { return None };
    let pairs = rope.dims / 2;
    let turning = (share * pairs as f32) as usize;
    Some((0..pairs).map(|at| if at < turning { 1.0 } else { 1e30 }).collect())
}
