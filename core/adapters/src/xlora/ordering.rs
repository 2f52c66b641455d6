//! [`LayerOrdering`]: the number of each module as a layer of an X-LoRA, from an `ordering.json` file.

use super::config::object;
use crate::error::{AdapterError, about};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name of the file beside a configuration.
const FILE: &str = "ordering.json";

/// The numbers of modules, and the order of adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerOrdering {
    /// The file.
    pub(crate) file: PathBuf,
    /// The names of the adapters in the order of the classifier's outputs.
    pub(crate) adapters: Vec<String>,
    /// The number of each module (`model.layers.0.self_attn.q_proj`).
    pub(crate) layers: BTreeMap<String, usize>,
}

impl LayerOrdering {
    /// The ordering beside a configuration, if there is one: `ordering.json`, or the only file that ends in
    /// `-ordering.json`.
    ///
    /// # Errors
    /// There are several such files, or one that cannot be read.
    pub(crate) fn beside(folder: &Path) -> Result<Option<Self>, AdapterError> {
        let plain = folder.join(FILE);
        if plain.is_file() {
            return Self::read(&plain).map(Some);
        }
        let Ok(entries) = std::fs::read_dir(folder) else { return Ok(None) };
        let is_one = |path: &PathBuf| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.ends_with("-ordering.json"))
        };
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_one).collect();
        found.sort();
        match found.as_slice() {
            [] => Ok(None),
            [one] => Self::read(one).map(Some),
            [first, ..] => Err(about(
                &first.display().to_string(),
                format!("there are {} ordering files; rename the right one to {FILE}", found.len()),
            )),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The JSON has another form, or the numbers are not 0, 1, 2 and so on, each once.
    pub(crate) fn read(file: impl AsRef<Path>) -> Result<Self, AdapterError> {
        let file = file.as_ref();
        let keys = object(file)?;
        let error = |key: &str, reason: &str| AdapterError::Key {
            file: file.display().to_string(),
            key: key.to_owned(),
            reason: reason.to_owned(),
        };
        let names = keys.get("order").and_then(Value::as_array);
        let names =
            names.and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
        let adapters: Vec<String> =
            names.ok_or_else(|| error("order", "expected a list of the names of the adapters"))?;
        let layers = keys.get("layers").and_then(Value::as_object);
        let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_u64()? as usize));
        let layers = layers.and_then(|layers| layers.iter().map(number).collect::<Option<BTreeMap<_, _>>>());
        let layers = layers.ok_or_else(|| error("layers", "expected an object of modules and numbers"))?;
        let mut numbers: Vec<usize> = layers.values().copied().collect();
        numbers.sort_unstable();
        if let Some((place, number)) = numbers.iter().enumerate().find(|(place, number)| place != *number) {
            let reason = format!(
                "expected the numbers 0, 1, 2 and so on, each once; found {number} instead of {place}"
            );
            return Err(error("layers", &reason));
        }
        Ok(Self { file: file.to_owned(), adapters, layers })
    }
}
