//! A GGUF file in one or several parts as [`FileContents`].

use crate::failure::Failure;
use crate::inspect::contents::{FileContents, FileSize, KeySummary, TensorSummary};
use menagerie::gguf::{ArrayView, GgufFile, Metadata, OpenOptions, Value as GgufValue};
use serde_json::Value;
use std::path::Path;

/// Reads header, keys and directory.
pub(crate) fn open(path: &Path) -> Result<FileContents, Failure> {
    let file = GgufFile::open(path, &OpenOptions::default().with_mmap(true))?;
    let metadata = file.metadata();
    let text = |key: &str| metadata.get(key).and_then(|value| value.as_str()).filter(|text| !text.is_empty());
    let key = |(name, value): (&str, GgufValue<'_>)| KeySummary {
        name: name.to_owned(),
        kind: type_name(&value),
        value: json(&value),
    };
    let tensor = |info: &menagerie::gguf::TensorInfo| TensorSummary {
        name: info.name().to_owned(),
        dims: info.dims().to_vec(),
        kind: info.kind().to_string(),
        bytes: info.bytes(),
    };
    let size = |path: &std::path::PathBuf| FileSize {
        path: path.clone(),
        bytes: std::fs::metadata(path).map_or(0, |found| found.len()),
    };
    Ok(FileContents {
        format: format!("GGUF version {}", file.version()),
        files: file.paths().iter().map(size).collect(),
        name: text("general.name").map(str::to_owned),
        architecture: text("general.architecture").map(str::to_owned),
        license: text("general.license").map(str::to_owned),
        tokenizer: tokenizer(metadata),
        template: text("tokenizer.chat_template").map(str::to_owned),
        keys: metadata.iter().map(key).collect(),
        tensors: file.tensors().iter().map(tensor).collect(),
    })
}

fn type_name(value: &GgufValue<'_>) -> String {
    match value.as_array() {
        Some(array) => format!("{}[{}]", array.element_type(), array.len()),
        None => value.value_type().to_string(),
    }
}

/// A value as JSON; a number that JSON cannot represent becomes a string.
fn json(value: &GgufValue<'_>) -> Value {
    let number = |number: f64| {
        serde_json::Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::from)
    };
    match value {
        GgufValue::String(text) => (*text).into(),
        GgufValue::Bool(flag) => (*flag).into(),
        GgufValue::Array(array) => array_json(array),
        // The shortest decimal that parses to the same f32, not its digits as an f64.
        GgufValue::F32(real) => number(real.to_string().parse().unwrap_or(f64::from(*real))),
        GgufValue::F64(real) => number(*real),
        whole => {
            whole.as_i64().map(Value::from).or_else(|| whole.as_u64().map(Value::from)).unwrap_or_default()
        }
    }
}

fn array_json(array: &ArrayView<'_>) -> Value {
    match array.byte_strings() {
        Some(texts) => texts.map(|text| Value::from(String::from_utf8_lossy(text).into_owned())).collect(),
        None => array.values().map(|value| json(&value)).collect(),
    }
}

/// Model, pre-tokenizer, size and special tokens, in one line.
fn tokenizer(metadata: &Metadata) -> Option<String> {
    let key = |name: &str| metadata.get(&format!("tokenizer.ggml.{name}"));
    let model = key("model")?;
    let mut line = model.as_str().unwrap_or("(unnamed)").to_owned();
    if let Some(pre) = key("pre").and_then(|pre| pre.as_str()) {
        line.push_str(&format!(" ({pre})"));
    }
    let tokens = key("tokens").and_then(|tokens| tokens.as_array());
    line.push_str(&format!(", {} tokens", tokens.map_or(0, |tokens| tokens.len())));
    for (name, short) in [("bos", "BOS"), ("eos", "EOS"), ("unknown", "UNK"), ("padding", "PAD")] {
        let id = key(&format!("{name}_token_id")).and_then(|id| id.as_u64());
        let text = id.and_then(|id| tokens?.byte_strings()?.nth(usize::try_from(id).ok()?));
        if let Some(text) = text {
            line.push_str(&format!("; {short} {}", String::from_utf8_lossy(text)));
        }
    }
    Some(line)
}
