//! [`PluginPart`]: the components of a model that come from plugins.

use crate::arguments::plugins::plugins;
use menagerie::open::ResolvedFile;
use menagerie::plugin_host::LoadedPlugin;
use menagerie::registry::Environment;
use menagerie::spec::layer_ranges;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A component of a model that comes from a plugin.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct PluginPart {
    /// `author/name:component`.
    pub(crate) name: String,
    /// `mixer`, `norm`, ..
    pub(crate) family: &'static str,
    /// The layers that have it; empty for a component outside the layers.
    pub(crate) layers: BTreeSet<usize>,
    /// The plugin's name in messages.
    pub(crate) plugin: &'static str,
}

impl PluginPart {
    /// The description in one line.
    pub(crate) fn line(&self) -> String {
        let place = match self.layers.is_empty() {
            true => "outside the layers".to_owned(),
            false => layer_ranges(&self.layers),
        };
        format!("{} {}, {place}, from {}", self.family, self.name, self.plugin)
    }
}

/// The components of a model that come from plugins, by name.
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

/// The plugin that registered a component, and the component's family.
fn owner(name: &str, environment: &Environment) -> Option<(&'static LoadedPlugin, &'static str)> {
    plugins(environment).iter().find_map(|&plugin| {
        let component = plugin.components.iter().find(|one| one.name == name)?;
        Some((plugin, component.family))
    })
}

/// Calls `each` with the name of every kind in a config, at any depth.
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
