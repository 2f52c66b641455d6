//! The `quantization_config` of weights in the format compressed-tensors (llm-compressor, vLLM).
//!
//! Source: `QuantizationConfig`, `QuantizationScheme` and `QuantizationArgs` of compressed-tensors 0.15.

use super::{HfStorage, block};
use serde_json::{Map, Value};

/// Keys of the table that do not affect the meaning of bytes, or that repeat information in the tensors.
const HARMLESS: [&str; 6] = [
    "quant_method",
    "version",
    "global_compression_ratio",
    "ignore",
    "quantization_status",
    "run_compressed",
];

/// Keys of a scheme that select its tensors or concern activations, which are not quantized here.
const UNUSED_KEYS: [&str; 2] = ["targets", "input_activations"];

/// Arguments of weights that state how their scales were found.
const CALIBRATION_KEYS: [&str; 6] =
    ["observer", "observer_kwargs", "actorder", "scale_dtype", "zp_dtype", "group_size"];

/// What to do about unsupported weights.
const ADVICE: &str =
    "get the unquantized model and quantize it with `menagerie quantize`, or get a GGUF file of it";

/// The storage that the table of a config states.
///
/// # Errors
/// Any format except 8-bit floats with scales per tensor, row or block.
pub(super) fn of(table: &Map<String, Value>) -> Result<HfStorage, String> {
    let mut found = None;
    for (name, value) in stated(table) {
        match name {
            name if HARMLESS.contains(&name) => {}
            "format" => format(name, value)?,
            "config_groups" => found = Some(groups(value)?),
            // Without entries, matrices are neither sparse nor rotated.
            "sparsity_config" | "transform_config" if is_empty(value) => {}
            _ => return Err(unread(name, value)),
        }
    }
    found.ok_or_else(|| format!("key quantization_config.config_groups: missing; {ADVICE}"))
}

/// The entries that are not null.
fn stated(table: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    table.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.as_str(), value))
}

fn is_empty(value: &Value) -> bool {
    let dense = |table: &Map<String, Value>| table.get("format").is_none_or(|format| format == "dense");
    value.as_object().is_some_and(|table| table.is_empty() || table.contains_key("format") && dense(table))
}

fn unread(name: &str, value: &Value) -> String {
    let shown: String = value.to_string().chars().take(120).collect();
    format!(
        "key quantization_config.{name}: {shown} is not supported (compressed-tensors); {ADVICE}. Supported are 8-bit floats"
    )
}

fn format(name: &str, value: &Value) -> Result<(), String> {
    match value.as_str() {
        Some("float-quantized" | "naive-quantized") => Ok(()),
        _ => Err(unread(name, value)),
    }
}

/// The storage of all schemes, which must agree.
fn groups(value: &Value) -> Result<HfStorage, String> {
    let name = "config_groups";
    let groups = value.as_object().filter(|groups| !groups.is_empty()).ok_or_else(|| unread(name, value))?;
    let mut found: Option<HfStorage> = None;
    for (group, scheme) in groups {
        let name = format!("{name}.{group}");
        let scheme = scheme.as_object().ok_or_else(|| unread(&name, scheme))?;
        let storage = of_scheme(&name, scheme)?;
        if found.as_ref().is_some_and(|found| *found != storage) {
            return Err(unread(
                &format!("{name}.weights.block_structure"),
                &Value::from("differs between the groups"),
            ));
        }
        found = Some(storage);
    }
    found.ok_or_else(|| unread(name, value))
}

fn of_scheme(name: &str, scheme: &Map<String, Value>) -> Result<HfStorage, String> {
    let mut found = None;
    for (key, value) in stated(scheme) {
        let name = format!("{name}.{key}");
        match key {
            key if UNUSED_KEYS.contains(&key) => {}
            "format" => format(&name, value)?,
            "weights" => {
                found = Some(weights(&name, value.as_object().ok_or_else(|| unread(&name, value))?)?)
            }
            _ => return Err(unread(&name, value)),
        }
    }
    found.ok_or_else(|| unread(&format!("{name}.weights"), &Value::Null))
}

/// 8-bit floats without zero points.
fn weights(name: &str, arguments: &Map<String, Value>) -> Result<HfStorage, String> {
    let mut strategy = None;
    for (key, value) in stated(arguments) {
        let name = format!("{name}.{key}");
        let understood = match key {
            key if CALIBRATION_KEYS.contains(&key) => true,
            "num_bits" => value.as_u64() == Some(8),
            "type" => value == "float",
            "symmetric" => value == &Value::Bool(true),
            "dynamic" => value == &Value::Bool(false),
            "strategy" => {
                strategy = value.as_str();
                matches!(strategy, Some("tensor" | "channel" | "block"))
            }
            "block_structure" => true,
            _ => false,
        };
        if !understood {
            return Err(unread(&name, value));
        }
    }
    let required =
        ["num_bits", "type"].into_iter().find(|key| arguments.get(*key).is_none_or(Value::is_null));
    if let Some(missing) = required {
        return Err(unread(&format!("{name}.{missing}"), &Value::Null));
    }
    let block = match strategy {
        Some("block") => {
            let name = format!("{name}.block_structure");
            let stated = arguments.get("block_structure").filter(|value| !value.is_null());
            Some(block(&name, stated.unwrap_or(&Value::Null))?)
        }
        _ => None,
    };
    Ok(HfStorage::Float8 { block })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn group(weights: Value) -> Value {
        json!({
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "quantization_status": "compressed",
            "ignore": ["lm_head"],
            "kv_cache_scheme": null,
            "sparsity_config": {},
            "config_groups": { "group_0": {
                "targets": ["Linear"],
                "input_activations": { "num_bits": 8, "type": "float", "strategy": "token", "dynamic": true },
                "output_activations": null,
                "weights": weights,
            } },
        })
    }

    fn said(table: &Value) -> Result<HfStorage, String> {
        of(table.as_object().unwrap())
    }

    fn eight(strategy: &str) -> Value {
        json!({
            "num_bits": 8, "type": "float", "symmetric": true, "dynamic": false, "group_size": null,
            "strategy": strategy, "observer": "minmax", "block_structure": null,
        })
    }

    #[test]
    fn floats_of_eight_bits_are_read() {
        for strategy in ["tensor", "channel"] {
            assert_eq!(said(&group(eight(strategy))), Ok(HfStorage::Float8 { block: None }));
        }
        let mut blocks = eight("block");
        blocks["block_structure"] = json!([128, 64]);
        assert_eq!(said(&group(blocks)), Ok(HfStorage::Float8 { block: Some([128, 64]) }));
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        let with = |key: &str, value: Value| {
            let mut weights = eight("channel");
            weights[key] = value;
            group(weights)
        };
        let outer = |key: &str, value: Value| {
            let mut table = group(eight("channel"));
            table[key] = value;
            table
        };
        for (table, wanted) in [
            (with("num_bits", json!(4)), "group_0.weights.num_bits: 4"),
            (with("num_bits", Value::Null), "group_0.weights.num_bits: null"),
            (with("type", json!("int")), "group_0.weights.type"),
            (with("symmetric", json!(false)), "group_0.weights.symmetric"),
            (with("strategy", json!("group")), "group_0.weights.strategy"),
            (with("strategy", json!("block")), "group_0.weights.block_structure"),
            (with("zero", json!(1)), "group_0.weights.zero"),
            (outer("format", json!("pack-quantized")), "quantization_config.format"),
            (outer("kv_cache_scheme", json!({ "num_bits": 8 })), "kv_cache_scheme"),
            (outer("sparsity_config", json!({ "format": "sparse-24-bitmask" })), "sparsity_config"),
            (outer("transform_config", json!({ "config_groups": {} })), "transform_config"),
            (outer("config_groups", json!({})), "config_groups"),
            (outer("config_groups", Value::Null), "config_groups: missing"),
            (outer("config_groups", json!({ "a": 3 })), "config_groups.a"),
            (outer("bits", json!(8)), "quantization_config.bits"),
        ] {
            let found = said(&table).unwrap_err();
            assert!(found.contains(wanted) && found.contains("GGUF"), "{wanted}: {found}");
        }
    }
}
