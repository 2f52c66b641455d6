//! Canonical keys as the metadata of a GGUF file.

use gguf_file::{OwnedArray, OwnedValue};
use menagerie_spec::MetadataValue;

/// Suffixes of canonical keys whose values are written as f32 even if they are integers (gguf-py/gguf/gguf_writer.py,
/// `add_float32`).
const REAL: [&str; 22] = [
    "_epsilon",
    ".epsilon",
    ".magnitude",
    "clamp_kqv",
    "max_alibi_bias",
    "output_scale",
    "attention.scale",
    "temperature_scale",
    "value_scale",
    "softcapping",
    "embedding_scale",
    "group_scale",
    "weights_scale",
    "logit_scale",
    "residual_scale",
    "freq_base",
    "freq_base_swa",
    "_factor",
    ".factor",
    "scaling.alpha",
    "_multiplier",
    "_beta",
];

/// Whole canonical keys with such values.
const REAL_WHOLE: [&str; 3] =
    ["rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow", "kda.gate_lower_bound"];

/// The value in the file, or a description of a value that a file cannot contain.
pub(crate) fn to_gguf(key: &str, value: &MetadataValue) -> Result<OwnedValue, String> {
    let real = REAL_WHOLE.contains(&key) || REAL.iter().any(|end| key.ends_with(end));
    Ok(match value {
        // A count that was computed with a formula.
        MetadataValue::Number(number)
            if !real && number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(number) =>
        {
            OwnedValue::U32(*number as u32)
        }
        MetadataValue::Number(number) => OwnedValue::F32(*number as f32),
        MetadataValue::Integer(whole) if real => OwnedValue::F32(*whole as f32),
        MetadataValue::Integer(whole) => match (u32::try_from(*whole), i32::try_from(*whole)) {
            (Ok(whole), _) => OwnedValue::U32(whole),
            (_, Ok(whole)) => OwnedValue::I32(whole),
            _ => OwnedValue::I64(*whole),
        },
        MetadataValue::Bool(flag) => OwnedValue::Bool(*flag),
        MetadataValue::Text(text) => OwnedValue::String(text.clone()),
        MetadataValue::List(values) => OwnedValue::Array(list(values, real)?),
    })
}

fn list(values: &[MetadataValue], real: bool) -> Result<OwnedArray, String> {
    let whole = |value: &MetadataValue| match value {
        MetadataValue::Integer(whole) => i32::try_from(*whole).ok(),
        _ => None,
    };
    let number = |value: &MetadataValue| match value {
        MetadataValue::Integer(whole) => Some(*whole as f32),
        MetadataValue::Number(number) => Some(*number as f32),
        _ => None,
    };
    let flag = |value: &MetadataValue| match value {
        MetadataValue::Bool(flag) => Some(*flag),
        _ => None,
    };
    let text = |value: &MetadataValue| match value {
        MetadataValue::Text(text) => Some(text.clone()),
        _ => None,
    };
    let wholes: Option<Vec<i32>> = values.iter().map(whole).collect();
    if let Some(wholes) = wholes.filter(|_| !real) {
        return Ok(OwnedArray::I32(wholes));
    }
    if let Some(numbers) = values.iter().map(number).collect() {
        return Ok(OwnedArray::F32(numbers));
    }
    if let Some(flags) = values.iter().map(flag).collect() {
        return Ok(OwnedArray::Bool(flags));
    }
    let texts: Option<Vec<String>> = values.iter().map(text).collect();
    texts.map(OwnedArray::strings).ok_or_else(|| "a list of several kinds of values".to_owned())
}

/// The value that is read from the file, for which the spec is resolved.
pub(crate) fn read_back(key: &str, value: &MetadataValue) -> MetadataValue {
    match (to_gguf(key, value), value) {
        (Ok(OwnedValue::F32(number)), _) => MetadataValue::Number(f64::from(number)),
        (Ok(OwnedValue::Array(OwnedArray::F32(numbers))), _) => MetadataValue::List(
            numbers.into_iter().map(|number| MetadataValue::Number(f64::from(number))).collect(),
        ),
        (Ok(OwnedValue::U32(whole)), _) => MetadataValue::Integer(i64::from(whole)),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_types_that_readers_expect() {
        let written = |key: &str, value: MetadataValue| to_gguf(key, &value).unwrap();
        assert_eq!(written("rope.freq_base", MetadataValue::Integer(10_000)), OwnedValue::F32(10_000.0));
        assert_eq!(
            written("attention.layer_norm_rms_epsilon", MetadataValue::Number(1e-5)),
            OwnedValue::F32(1e-5)
        );
        assert_eq!(written("rope.scaling.factor", MetadataValue::Integer(8)), OwnedValue::F32(8.0));
        assert_eq!(written("block_count", MetadataValue::Integer(3)), OwnedValue::U32(3));
        assert_eq!(written("rope.dimension_count", MetadataValue::Number(8.0)), OwnedValue::U32(8));
        assert_eq!(written("rope.freq_base", MetadataValue::Number(8.0)), OwnedValue::F32(8.0));
        assert_eq!(written("rope.dimension_count", MetadataValue::Integer(16)), OwnedValue::U32(16));
        let list = MetadataValue::List(vec![MetadataValue::Integer(4), MetadataValue::Integer(2)]);
        assert_eq!(written("attention.head_count_kv", list), OwnedValue::Array(OwnedArray::I32(vec![4, 2])));
        let mixed = MetadataValue::List(vec![MetadataValue::Integer(4), MetadataValue::Text("a".to_owned())]);
        assert!(to_gguf("x", &mixed).is_err());
    }
}
