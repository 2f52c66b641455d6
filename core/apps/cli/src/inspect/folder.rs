//! A Hugging Face folder as [`FileContents`]: config.json, weight files, tokenizer and template.

use crate::failure::Failure;
use crate::inspect::contents::{FileContents, FileSize, KeySummary};
use crate::inspect::safetensors::add_safetensors;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Reads a folder that has a config.json.
pub(crate) fn open(folder: &Path) -> Result<FileContents, Failure> {
    let own = json(&folder.join("config.json"))?;
    let adapter = own.is_none();
    let found = if adapter { json(&folder.join("adapter_config.json"))? } else { own };
    let config = found.ok_or_else(|| {
        Failure::about(folder.display(), "the folder has no config.json")
            .with_help("give a .gguf or .safetensors file, or the folder of a Hugging Face model")
    })?;
    let format = if adapter { "PEFT adapter folder" } else { "Hugging Face folder" };
    let mut inspected = FileContents { format: format.to_owned(), ..FileContents::default() };
    let mut weights: Vec<PathBuf> = Vec::new();
    let about = |error: std::io::Error| Failure::about(folder.display(), error);
    for entry in std::fs::read_dir(folder).map_err(about)? {
        let path = entry.map_err(about)?.path();
        // The folder of an adapter may have other files: references, training checkpoints.
        let is_weights = match adapter {
            true => path.file_name().is_some_and(|name| name == "adapter_model.safetensors"),
            false => path.extension().is_some_and(|extension| extension == "safetensors"),
        };
        if is_weights {
            weights.push(path);
        }
    }
    weights.sort();
    for path in &weights {
        add_safetensors(path, &mut inspected)?;
    }
    // The metadata of weight files does not describe the model.
    inspected.keys.clear();
    flatten("", &config, &mut inspected.keys);
    let first = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    inspected.architecture = first("/architectures/0").or_else(|| first("/model_type"));
    inspected.name = first("/_name_or_path").filter(|name| !name.is_empty());
    inspected.license = license(folder);
    let tokenizer = json(&folder.join("tokenizer_config.json"))?.unwrap_or_default();
    inspected.template = template(folder, &tokenizer);
    inspected.tokenizer = tokenizer_line(folder, &tokenizer)?;
    for name in
        ["config.json", "adapter_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model"]
    {
        let path = folder.join(name);
        if let Ok(found) = std::fs::metadata(&path) {
            inspected.files.push(FileSize { path, bytes: found.len() });
        }
    }
    Ok(inspected)
}

/// The JSON of a file; `None` if the file does not exist.
fn json(path: &Path) -> Result<Option<Value>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(Failure::about(path.display(), format!("not JSON: {error}"))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::about(path.display(), error)),
    }
}

/// Flattens objects to dotted keys.
fn flatten(path: &str, value: &Value, keys: &mut Vec<KeySummary>) {
    match value.as_object() {
        Some(table) => {
            for (name, value) in table {
                let dot = if path.is_empty() { "" } else { "." };
                flatten(&format!("{path}{dot}{name}"), value, keys);
            }
        }
        None => {
            let kind = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) | Value::Object(_) => "list",
            };
            keys.push(KeySummary { name: path.to_owned(), kind: kind.to_owned(), value: value.clone() });
        }
    }
}

/// `license:` in the metadata of the README.
fn license(folder: &Path) -> Option<String> {
    let readme = std::fs::read_to_string(folder.join("README.md")).ok()?;
    let head = readme.strip_prefix("---")?.split("\n---").next()?;
    let line = head.lines().find_map(|line| line.strip_prefix("license:"))?;
    Some(line.trim().trim_matches(['"', '\'']).to_owned())
}

fn template(folder: &Path, tokenizer: &Value) -> Option<String> {
    let own = std::fs::read_to_string(folder.join("chat_template.jinja")).ok();
    own.or_else(|| tokenizer.get("chat_template")?.as_str().map(str::to_owned))
}

/// Class, size and special tokens, in one line.
fn tokenizer_line(folder: &Path, config: &Value) -> Result<Option<String>, Failure> {
    let whole = json(&folder.join("tokenizer.json"))?;
    let class = config.get("tokenizer_class").and_then(Value::as_str);
    let kind = whole.as_ref().and_then(|whole| whole.pointer("/model/type")).and_then(Value::as_str);
    if class.is_none() && kind.is_none() {
        return Ok(None);
    }
    let mut line = [class, kind].into_iter().flatten().collect::<Vec<_>>().join(", ");
    if let Some(whole) = &whole {
        let count = |pointer: &str| match whole.pointer(pointer) {
            Some(Value::Object(table)) => table.len(),
            Some(Value::Array(list)) => list.len(),
            _ => 0,
        };
        line.push_str(&format!(", {} tokens, {} added", count("/model/vocab"), count("/added_tokens")));
    }
    for name in ["bos", "eos", "unk", "pad"] {
        let token = config.get(format!("{name}_token"));
        let text = token.and_then(|token| token.as_str().or_else(|| token.get("content")?.as_str()));
        if let Some(text) = text {
            line.push_str(&format!("; {} {text}", name.to_uppercase()));
        }
    }
    Ok(Some(line))
}
