//! [`MixtureRoles`]: which tensors of a model are parts of a mixture.

use menagerie_adapters::{AdapterFile, AdapterFormat, AdapterModule, places};
use menagerie_spec::{ArchSpec, ModelConfig};
use std::collections::BTreeSet;

/// Roles of the feed-forwards that became experts, by layer; empty without a mixture.
#[derive(Clone, Debug, Default)]
pub(crate) struct MixtureRoles {
    roles: BTreeSet<(String, usize)>,
}

impl MixtureRoles {
    /// The roles of these layers.
    pub(crate) fn of(config: &ModelConfig, layers: &[usize]) -> Self {
        let mut roles = BTreeSet::new();
        for &layer in layers {
            let part = config.layers.get(layer).and_then(|layer| layer.feed_forward.as_ref());
            let tensors = part.map(|part| part.wanted(config.embedding_length)).unwrap_or_default();
            roles.extend(tensors.into_iter().map(|tensor| (tensor.role, layer)));
        }
        Self { roles }
    }

    /// Whether there is no mixture.
    pub(crate) fn is_empty(&self) -> bool {
        self.roles.is_empty()
    }

    /// All roles with their layers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, usize)> {
        self.roles.iter().map(|(role, layer)| (role.as_str(), *layer))
    }

    /// The layer in which a module of an adapter changes a part of the mixture, if any.
    pub(crate) fn layer_of(
        &self,
        file: &AdapterFile,
        module: &AdapterModule,
        spec: &ArchSpec,
    ) -> Option<usize> {
        match file.format {
            AdapterFormat::Peft => {
                let found = places(spec, &module.name).into_iter();
                let mut found = found.filter_map(|place| Some((place.role, place.layer?)));
                found.find(|place| self.roles.contains(place)).map(|(_, layer)| layer)
            }
            AdapterFormat::Gguf => {
                let called =
                    |(role, layer): &(&str, usize)| spec.role_to_gguf_name(role, Some(*layer)) == module.name;
                self.iter().find(called).map(|(_, layer)| layer)
            }
        }
    }
}
