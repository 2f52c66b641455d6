//! [`Ordering`]: which number each module has as a layer of an X-LoRA, as `ordering.json` files say it.

use super::config::object;
use crate::error::{AdapterError, about};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file's name beside a configuration.
const FILE: &str = "ordering.json";

/// The numbers of modules, and the order of adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordering {
    /// The file.
    pub file: PathBuf,
    /// Names of the adapters in the order of the classifier's outputs.
    pub adapters: Vec<String>,
    /// Number by module (`model.layers.0.self_attn.q_proj`).
    pub layers: BTreeMap<String, usize>,
}

impl Ordering {
    /// The ordering beside a configuration, if there is one: `ordering.json`, or the only file that ends in
    /// `-ordering.json`.
    ///
    /// # Errors
    /// Several such files, or one that cannot be read.
    pub fn beside(folder: &Path) -> Result<Option<Self>, AdapterError> {
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
                format!("one of {} orderings; rename the one that is meant to {FILE}", found.len()),
            )),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// No JSON of this form; numbers that are not those from 0 on, each once.
    pub fn read(file: impl AsRef<Path>) -> Result<Self, AdapterError> {
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
            names.ok_or_else(|| error("order", "a list of the adapters' names is wanted"))?;
        let layers = keys.get("layers").and_then(Value::as_object);
        let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_u64()? as usize));
        let layers = layers.and_then(|layers| layers.iter().map(number).collect::<Option<BTreeMap<_, _>>>());
        let layers = layers.ok_or_else(|| error("layers", "modules with their numbers are wanted"))?;
        let mut numbers: Vec<usize> = layers.values().copied().collect();
        numbers.sort_unstable();
        if let Some((place, number)) = numbers.iter().enumerate().find(|(place, number)| place != *number) {
            let reason = format!("the numbers from 0 on, each once, are wanted; {place} is {number}");
            return Err(error("layers", &reason));
        }
        Ok(Self { file: file.to_owned(), adapters, layers })
    }
}
