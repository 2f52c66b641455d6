//! [`Resolution`]: a resolved model with the origin of every value and the use of every key.

use super::origin::ValueOrigin;
use crate::config::{LayerConfig, ModelConfig};
use std::collections::{BTreeMap, BTreeSet};

/// A resolved model and its report.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Resolution {
    /// The model.
    pub config: ModelConfig,
    /// The use of each metadata key.
    pub coverage: KeyCoverage,
    /// The origin of each resolved value.
    pub values: Vec<ResolvedValue>,
    /// Warnings to print at each load: overridden keys, keys accepted unread.
    pub warnings: Vec<String>,
}

impl Resolution {
    /// Values that the file does not state and whose errors would show only in the logits: activations,
    /// renormalization, pairing, offsets, positions of norms, periods of layers. Only those of existing parts, each
    /// value once.
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
                // A value of the whole model also applies to its layers.
                Some(known) if known.layers.is_empty() || layers.is_empty() => known.layers.clear(),
                Some(known) => known.layers.extend(layers),
                None => facts.push(ResolvedValue { layers, ..entry.clone() }),
            }
        }
        facts
    }

    /// Whether a layer has the branch of the block that an option belongs to.
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

/// The use of each canonical key of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct KeyCoverage {
    /// Keys that the spec or its components read, determined by the text of the spec.
    pub read: Vec<String>,
    /// Ignored keys and the reason.
    pub ignored: BTreeMap<String, String>,
    /// Unknown keys that the user accepts.
    pub accepted_unread: Vec<String>,
    /// Keys that the spec reads and that have no effect on this model: those of a scaling that the file does not use,
    /// or of experts in a dense model.
    pub without_effect: Vec<String>,
    /// Globs of `[gguf.ignore_keys]` without a match in the file; only those of the spec itself, because those of its
    /// bases are about other files.
    pub unmatched: Vec<String>,
}

/// The origin of one resolved value.
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
    /// Whether an error in it would show only in the logits.
    pub guarded: bool,
}
