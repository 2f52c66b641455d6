//! [`HfStorage`]: how weights are stored, by the `quantization_config` in config.json.

mod compressed_tensors;

use menagerie_spec::HfConfig;
use serde_json::{Map, Value};

/// How weights are stored that are not plain floats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HfStorage {
    /// As the types of the tensors say.
    #[default]
    Plain,
    /// 8-bit floats with factors for blocks of so many rows and columns, for rows, or for whole tensors.
    Float8 {
        /// Rows and columns of a block; absent where a tensor has one factor.
        block: Option<[usize; 2]>,
    },
    /// Blocks of 32 4-bit floats with a shared exponent, in the tensors that layouts name.
    Mxfp4,
}

/// Keys of the table that do not affect the meaning of bytes, or that repeat information in the tensors.
const HARMLESS: [&str; 8] = [
    "quant_method",
    "activation_scheme",
    "modules_to_not_convert",
    "dequantize",
    "scale_fmt",
    "weight_block_size",
    "fmt",
    "quantization_status",
];

impl HfStorage {
    /// The storage that a config states.
    ///
    /// # Errors
    /// An unsupported method; an unknown key in the table.
    pub(crate) fn of(config: &HfConfig) -> Result<Self, String> {
        let Some(stated) = config.value("quantization_config") else { return Ok(Self::Plain) };
        let Some(table) = stated.as_object() else {
            return Err("key quantization_config: expected a table; download the file again".to_owned());
        };
        let method = table.get("quant_method").and_then(Value::as_str).unwrap_or("without a quant_method");
        let storage = match method {
            "fp8" => Self::Float8 { block: stated_block(table)? },
            "compressed-tensors" => return compressed_tensors::of(table),
            "mxfp4" => Self::Mxfp4,
            other => return Err(unsupported(other)),
        };
        let unread =
            table.iter().find(|(name, value)| !value.is_null() && !HARMLESS.contains(&name.as_str()));
        if let Some((name, value)) = unread {
            return Err(format!(
                "key quantization_config.{name}: {value} is not supported and might change the meaning of the weights; \
                 get the model in BF16 or as GGUF"
            ));
        }
        match table.get("fmt").and_then(Value::as_str) {
            None | Some("e4m3" | "float8_e4m3fn") => Ok(storage),
            Some(other) => Err(format!(
                "key quantization_config.fmt: expected e4m3, found \"{other}\"; get the model in BF16"
            )),
        }
    }
}

/// The value of `weight_block_size`, if present.
fn stated_block(table: &Map<String, Value>) -> Result<Option<[usize; 2]>, String> {
    let stated = table.get("weight_block_size").filter(|value| !value.is_null());
    stated.map(|stated| block("weight_block_size", stated)).transpose()
}

/// The rows and columns of a block.
fn block(name: &str, stated: &Value) -> Result<[usize; 2], String> {
    let counts: Option<Vec<usize>> = stated.as_array().and_then(|list| {
        list.iter()
            .map(|value| value.as_u64().and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0))
            .collect()
    });
    match counts.as_deref() {
        Some([rows, cols]) => Ok([*rows, *cols]),
        _ => Err(format!(
            "key quantization_config.{name}: expected two positive integers, found {stated}; get the model in BF16 or as \
             GGUF"
        )),
    }
}

/// The error for an unsupported method.
fn unsupported(method: &str) -> String {
    let what = match method {
        "bitsandbytes" => "weights packed by bitsandbytes",
        "gptq" => "weights packed by GPTQ",
        "awq" => "weights packed by AWQ",
        "without a quant_method" => "weights in an unnamed format",
        _ => "weights in an unknown format",
    };
    format!(
        "key quantization_config.quant_method: {what} ({method}) are not supported; get the unquantized model and \
         quantize it with `menagerie quantize`, or get a GGUF file of it. Supported are fp8 (e4m3), 8-bit floats of \
         compressed-tensors, and mxfp4"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<HfStorage, String> {
        HfStorage::of(&HfConfig::parse("c", &format!("{{\"quantization_config\": {text}}}")).unwrap())
    }

    #[test]
    fn what_is_understood_and_what_is_not() {
        assert_eq!(of("null"), Ok(HfStorage::Plain));
        let deepseek = r#"{"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size":
             [128, 128]}"#;
        assert_eq!(of(deepseek), Ok(HfStorage::Float8 { block: Some([128, 128]) }));
        assert_eq!(
            of(r#"{"quant_method": "fp8", "weight_block_size": null}"#),
            Ok(HfStorage::Float8 { block: None })
        );
        assert_eq!(of(r#"{"quant_method": "mxfp4", "modules_to_not_convert": ["a"]}"#), Ok(HfStorage::Mxfp4));
        for (text, wanted) in [
            ("3", "expected a table"),
            ("{}", "an unnamed format"),
            (r#"{"quant_method": "bitsandbytes", "load_in_4bit": true}"#, "bitsandbytes"),
            (r#"{"quant_method": "gptq"}"#, "GPTQ"),
            (r#"{"quant_method": "fp8", "weight_block_size": [128]}"#, "two positive integers"),
            (r#"{"quant_method": "fp8", "weight_block_size": [0, 1]}"#, "two positive integers"),
            (r#"{"quant_method": "fp8", "bits": 4}"#, "quantization_config.bits"),
            (r#"{"quant_method": "fp8", "fmt": "e5m2"}"#, "e5m2"),
        ] {
            let said = of(text).unwrap_err();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
