//! What a reload finds: specs and plugins that are new, changed or gone.

use crate::arguments::plugins::{plugin_names, plugins};
use menagerie::registry::Environment;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Specs and plugins by name, each with what identifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SpecStamps {
    specs: BTreeMap<String, u64>,
    plugins: BTreeSet<String>,
}

impl SpecStamps {
    /// Those of an environment with its spec folders.
    pub(super) fn of(environment: &Environment) -> Self {
        let stamp = |origin: &dyn std::fmt::Debug, text: &str| {
            let mut hasher = DefaultHasher::new();
            (format!("{origin:?}"), text).hash(&mut hasher);
            hasher.finish()
        };
        let specs = environment.architectures().iter();
        let specs = specs.map(|entry| (entry.id.clone(), stamp(&entry.origin, entry.text()))).collect();
        Self { specs, plugins: plugin_names(environment).into_iter().collect() }
    }

    /// Ids of specs that differ, and names of plugins that differ.
    pub(super) fn differences(&self, other: &Self) -> (BTreeSet<String>, BTreeSet<String>) {
        let ids = self.specs.keys().chain(other.specs.keys());
        let specs = ids.filter(|id| self.specs.get(*id) != other.specs.get(*id)).cloned().collect();
        // A plugin is named with its checksum.
        let plugins = self.plugins.symmetric_difference(&other.plugins);
        let name = |plugin: &String| plugin.split(' ').next().unwrap_or_default().to_owned();
        (specs, plugins.map(name).collect())
    }
}

/// Whether a model uses a plugin of one of two environments. `parts` are the components of plugins in the model. What acts
/// without a name in the model (tables, tokenizers, activations) may be used by any.
pub(super) fn uses_plugin(environments: [&Environment; 2], plugin: &str, parts: &BTreeSet<String>) -> bool {
    let mut known = environments.into_iter().flat_map(plugins).filter(|known| known.inspected.id == plugin);
    known.any(|known| {
        let uses = |family: &str, name: &str| match family {
            "mixer" | "feed-forward" | "norm" | "sampler" => parts.contains(name),
            // A server runs no hooks.
            "layer-hook" => false,
            _ => true,
        };
        !known.tables.is_empty() || known.components.iter().any(|one| uses(one.family, one.name))
    })
}

/// Whether an architecture is one of these, or extends one of them.
pub(super) fn depends_on(environment: &Environment, architecture: &str, specs: &BTreeSet<String>) -> bool {
    let entry = environment.architectures().iter().find(|entry| entry.id == architecture);
    let extends = entry.and_then(|entry| entry.spec().as_ref().ok()).map(|spec| &spec.extends);
    specs.contains(architecture) || extends.is_some_and(|bases| bases.iter().any(|base| specs.contains(base)))
}
