//! Which parts of a model are a plugin's, and whose.

use crate::arguments::plugins::plugins;
use menagerie::open::ResolvedFile;
use menagerie::plugin_host::Plugin;
use menagerie::registry::Environment;
use menagerie::spec::layer_ranges;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A component of a plugin in a model.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct PluginPart {
    /// `author/name:component`.
    pub(crate) name: String,
    /// `mixer`, `norm`, ..
    pub(crate) family: &'static str,
    /// Blocks that have it; empty: beside the blocks.
    pub(crate) layers: BTreeSet<usize>,
    /// The plugin, as it is named in errors.
    pub(crate) plugin: &'static str,
}

impl PluginPart {
    /// In a line.
    pub(crate) fn line(&self) -> String {
        let place = match self.layers.is_empty() {
            true => "beside the layers".to_owned(),
            false => layer_ranges(&self.layers),
        };
        format!("{} {}, {place}, of {}", self.family, self.name, self.plugin)
    }
}

/// The parts of a model that are plugins', by name.
pub(crate) fn parts_of(resolved: &ResolvedFile) -> Vec<PluginPart> {
    let config = resolved.config();
    let mut found: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (index, layer) in config.layers.iter().enumerate() {
        kinds(&json!(layer), &mut |name| {
            found.entry(name.to_owned()).or_default().insert(index);
        });
    }
    for beside in [json!(config.embedding), json!(config.output)] {
        kinds(&beside, &mut |name| {
            found.entry(name.to_owned()).or_default();
        });
    }
    let part = |(name, layers): (String, BTreeSet<usize>)| {
        let (plugin, family) = owner(&name, &resolved.environment)?;
        Some(PluginPart { name, family, layers, plugin: plugin.shown() })
    };
    found.into_iter().filter_map(part).collect()
}

/// The plugin that registered a component that stands in specs.
fn owner(name: &str, environment: &Environment) -> Option<(&'static Plugin, &'static str)> {
    plugins(environment).iter().find_map(|&plugin| {
        let component = plugin.components.iter().find(|one| one.name == name)?;
        Some((plugin, component.family))
    })
}

/// The names of every kind in a config, at any depth.
fn kinds(value: &Value, each: &mut dyn FnMut(&str)) {
    match value {
        Value::Object(fields) => {
            fields.get("kind").and_then(Value::as_str).into_iter().for_each(&mut *each);
            fields.values().for_each(|field| kinds(field, each));
        }
        Value::Array(items) => items.iter().for_each(|item| kinds(item, each)),
        _ => {}
    }
}
