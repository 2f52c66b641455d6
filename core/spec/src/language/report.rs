//! [`Resolution`]: a resolved model with where every value came from and what became of every key.

use super::origin::ValueOrigin;
use crate::config::{LayerConfig, ModelConfig};
use std::collections::{BTreeMap, BTreeSet};

/// A resolved model and the account of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Resolution {
    /// The model.
    pub config: ModelConfig,
    /// What became of each metadata key.
    pub coverage: KeyCoverage,
    /// Where each resolved value came from.
    pub values: Vec<ResolvedValue>,
    /// Things to print at each load: overridden keys, keys accepted unread.
    pub warnings: Vec<String>,
}

impl Resolution {
    /// Facts that only logits can guard and that this file does not state: activations, renormalization, pairing,
    /// offsets, where norms sit, periods of layers. Only those of parts that the model has, each value once.
    pub fn from_spec_only(&self) -> Vec<ResolvedValue> {
        let mut facts: Vec<ResolvedValue> = Vec::new();
        let guarded = self.values.iter().filter(|entry| entry.guarded && entry.origin.is_spec());
        for entry in guarded {
            let layers: BTreeSet<usize> =
                entry.layers.iter().copied().filter(|layer| self.has_part(&entry.path, *layer)).collect();
            if layers.is_empty() && !entry.layers.is_empty() {
                continue;
            }
            let same = |known: &&mut ResolvedValue| {
                known.path == entry.path && known.value == entry.value && known.origin == entry.origin
            };
            match facts.iter_mut().find(same) {
                // What holds in the whole model holds in its layers too.
                Some(known) if known.layers.is_empty() || layers.is_empty() => known.layers.clear(),
                Some(known) => known.layers.extend(layers),
                None => facts.push(ResolvedValue { layers, ..entry.clone() }),
            }
        }
        facts
    }

    /// Whether a layer has the branch of the block that an option is of.
    fn has_part(&self, path: &str, layer: usize) -> bool {
        let has = |part: fn(&LayerConfig) -> bool| {
            self.config.layers.iter().any(|config| config.index == layer && part(config))
        };
        match path.strip_prefix("block.").and_then(|path| path.split_once('.')) {
            Some(("mixer", _)) => has(|layer| layer.mixer.is_some()),
            Some(("feed_forward", _)) => has(|layer| layer.feed_forward.is_some()),
            Some(("beside", _)) => has(|layer| layer.beside.is_some()),
            Some(("last", _)) => has(|layer| layer.last.is_some()),
            _ => true,
        }
    }
}

/// What became of each canonical key of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KeyCoverage {
    /// Keys the spec or its components read, decided from the text of the spec.
    pub read: Vec<String>,
    /// Ignored keys and the reason.
    pub ignored: BTreeMap<String, String>,
    /// Keys nothing understands, accepted by the user.
    pub accepted_unread: Vec<String>,
    /// Keys the spec reads and nothing that this model has depends on: those of a scaling that the file does not ask
    /// for, or of experts in a dense model.
    pub without_effect: Vec<String>,
    /// Globs of `[gguf.ignore_keys]` that match no key of the file; only those that the spec states itself, as those of
    /// the specs it extends are about the files of others.
    pub unmatched: Vec<String>,
}

/// Where one resolved value came from.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ResolvedValue {
    /// Layers it holds in; empty for a value of the whole model.
    pub layers: BTreeSet<usize>,
    /// Dotted path in the spec, e.g. `mixer.rope.base`.
    pub path: String,
    /// The value, as text.
    pub value: String,
    /// Where it came from.
    pub origin: ValueOrigin,
    /// Whether a wrong value would be seen in nothing but the logits.
    pub guarded: bool,
}
