//! [`Resolution`]: a resolved model with where every value came from and what became of every key.

use crate::config::ModelConfig;
use std::collections::{BTreeMap, BTreeSet};

/// A resolved model and the account of it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Resolution {
    /// The model.
    pub config: ModelConfig,
    /// What became of each metadata key.
    pub coverage: KeyCoverage,
    /// Where each resolved value came from.
    pub provenance: Vec<Provenance>,
    /// Things to print at each load: overridden keys, keys accepted unread.
    pub warnings: Vec<String>,
}

impl Resolution {
    /// Facts that only logits can guard and that this file does not state: activations, renormalisation, pairing,
    /// offsets, where norms sit, periods of layers.
    pub fn from_spec_only(&self) -> impl Iterator<Item = &Provenance> {
        self.provenance.iter().filter(|entry| entry.guarded && entry.origin.is_spec())
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
    /// Globs of `[gguf.ignore_keys]` that match no key of the file.
    pub unmatched: Vec<String>,
}

/// Where one resolved value came from.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Provenance {
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

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum ValueOrigin {
    /// The value of these keys, which the file has, as it stands there.
    File {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// Computed from these keys, of which at least one was set by hand.
    Override {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// The spec's formula (or the language's) over these keys, which the file has.
    Formula {
        /// Canonical keys.
        keys: Vec<String>,
    },
    /// Decided by which tensors the file has.
    Tensors {
        /// Roles asked for.
        roles: Vec<String>,
    },
    /// Written in the spec.
    Spec,
    /// An expression of the spec whose keys the file does not have.
    SpecDefault {
        /// Canonical keys that could have said otherwise.
        keys: Vec<String>,
    },
    /// Default of the language: neither spec nor file says it.
    Default,
}

impl ValueOrigin {
    /// Whether the spec or the language has a say in the value: no file says it as it is.
    pub fn is_spec(&self) -> bool {
        match self {
            Self::Spec | Self::SpecDefault { .. } | Self::Default | Self::Formula { .. } => true,
            Self::File { .. } | Self::Override { .. } | Self::Tensors { .. } => false,
        }
    }
}

impl std::fmt::Display for ValueOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ValueOrigin::File { keys } => write!(f, "from the file ({})", keys.join(", ")),
            ValueOrigin::Formula { keys } => write!(f, "formula of the spec over {}", keys.join(", ")),
            ValueOrigin::Override { keys } => write!(f, "set by hand ({})", keys.join(", ")),
            ValueOrigin::Tensors { roles } => write!(f, "from the tensors ({})", roles.join(", ")),
            ValueOrigin::Spec => f.write_str("spec"),
            ValueOrigin::SpecDefault { keys } => write!(f, "spec; the file has no {}", keys.join(", ")),
            ValueOrigin::Default => f.write_str("default"),
        }
    }
}
