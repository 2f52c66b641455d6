//! [`StateIdentity`]: everything that a state depends on, apart from its tokens.

use crate::engine::Engine;
use menagerie_model::AdapterSet;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

/// A pipeline whose sequences keep state from step to step, which [`crate::StateFile`] and [`crate::DiskCache`] can
/// store. Encoders keep none.
pub trait Cacheable {
    /// The engine that computes the state.
    fn engine(&self) -> &Arc<Engine>;

    /// Everything that the state depends on, apart from its tokens.
    ///
    /// # Errors
    /// A file cannot be read, or a model or adapter was made in code, so that it cannot be recognized later.
    fn state_identity(&self) -> Result<StateIdentity, IdentityError>;

    /// Identifies the adapters that requests choose.
    fn adapter_identifier(&self) -> Arc<dyn AdapterIdentifier>;
}

/// Identifies adapters by their files.
pub trait AdapterIdentifier: Send + Sync {
    /// The identities of the adapters of a set, in order.
    ///
    /// # Errors
    /// A file cannot be read, or an adapter has none.
    fn identities(&self, set: &AdapterSet) -> Result<Vec<AdapterIdentity>, IdentityError>;
}

/// Why something that a state depends on cannot be identified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// An error of the operating system.
    #[error("{file}: cannot read it: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Something without a file cannot be recognized later.
    #[error("{0} was made in code and has no file that identifies it, so its state cannot be saved")]
    Unnamed(String),
}

/// The version of the order of arithmetic. It increases whenever the results of a kernel change.
const ORDER: u32 = 1;

/// Everything that a state depends on, apart from its tokens. If any of it differs, a resumed generation would differ
/// from an uninterrupted one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateIdentity {
    /// Program, order of arithmetic and byte order.
    engine: String,
    /// Id of the spec.
    architecture: String,
    /// Hash of the resolved model: spec, keys of the file, `--set`, and the types of the tensors.
    config: String,
    /// Hash of the model's files: of large ones their header, small tensors, and samples of large tensors.
    weights: String,
    /// Hash of the files beside them that change the model: X-LoRA, experts and gate of a mixture, an importance matrix.
    beside: Option<String>,
    /// The adapters, in order.
    adapters: Vec<AdapterIdentity>,
    /// The type of cached keys and values.
    kv_type: String,
    /// The device.
    device: String,
    /// The arithmetic.
    arithmetic: String,
    /// The effects of hooks on the residual stream: control vectors.
    effects: Vec<String>,
    /// The loaded plugins, by name and checksum.
    plugins: Vec<String>,
}

/// An adapter of a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdapterIdentity {
    /// Its name, for messages.
    pub name: String,
    /// Hash of its files.
    pub files: String,
    /// Its weight.
    pub weight: f32,
}

/// Identifies a model with everything that changed it when it was opened: hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelFingerprint {
    /// Id of the spec.
    pub architecture: String,
    /// Of the resolved model: spec, keys of the file, `--set`, and the types of the tensors.
    pub config: String,
    /// Of the model's files: of large ones their header, small tensors, and samples of large tensors.
    pub weights: String,
    /// Of the files beside them that change the model: X-LoRA, experts and gate of a mixture, an importance matrix.
    pub beside: Option<String>,
}

impl StateIdentity {
    /// The identity of states of `engine`, for a model of this fingerprint and these adapters in order; `arithmetic`
    /// is named as on the command line.
    pub fn new(
        engine: &Engine,
        model: ModelFingerprint,
        arithmetic: impl Into<String>,
        adapters: Vec<AdapterIdentity>,
    ) -> Self {
        let ModelFingerprint { architecture, config, weights, beside } = model;
        let byte_order = if cfg!(target_endian = "big") { ", big-endian" } else { "" };
        Self {
            engine: format!("menagerie {}, order {ORDER}{byte_order}", env!("CARGO_PKG_VERSION")),
            architecture,
            config,
            weights,
            beside,
            adapters,
            kv_type: engine.kv_type.name().to_owned(),
            device: engine.compute.backend.name(),
            arithmetic: arithmetic.into(),
            effects: Vec::new(),
            plugins: Vec::new(),
        }
    }

    /// Sets the effects of hooks on the residual stream.
    #[must_use]
    pub fn with_effects(self, effects: Vec<String>) -> Self {
        Self { effects, ..self }
    }

    /// Sets the loaded plugins.
    pub fn with_plugins(self, plugins: Vec<String>) -> Self {
        Self { plugins, ..self }
    }

    /// Sets the adapters, in order.
    pub(crate) fn with_adapters(self, adapters: Vec<AdapterIdentity>) -> Self {
        Self { adapters, ..self }
    }

    /// Id of the spec.
    pub(crate) fn architecture(&self) -> &str {
        &self.architecture
    }

    /// The options that states depend on, for listings.
    pub(crate) fn summary(&self) -> String {
        let mut parts = vec![self.kv_type.clone(), self.device.clone(), self.arithmetic.clone()];
        if !self.adapters.is_empty() {
            parts.push(format!("adapters {}", listed(&self.adapters)));
        }
        if !self.effects.is_empty() {
            parts.push("with hooks".to_owned());
        }
        parts.join(", ")
    }

    /// The differences to `now`, as phrases.
    pub(crate) fn differences(&self, now: &Self) -> Vec<String> {
        let Self {
            engine,
            architecture,
            config,
            weights,
            beside,
            adapters,
            kv_type,
            device,
            arithmetic,
            effects,
            plugins,
        } = self;
        let mut found = Vec::new();
        let mut said = |what: &str, was: &str, is: &str| {
            if was != is {
                found.push(format!("{what} was {was} and is {is}"));
            }
        };
        said("the program", engine, &now.engine);
        said("the architecture", architecture, &now.architecture);
        said("the cache type", kv_type, &now.kv_type);
        said("the device", device, &now.device);
        said("the arithmetic", arithmetic, &now.arithmetic);
        said("the effect of hooks", &joined(effects), &joined(&now.effects));
        said("the list of plugins", &joined(plugins), &joined(&now.plugins));
        said("the set of adapters", &listed(adapters), &listed(&now.adapters));
        let mut other = |what: &str, differs: bool| {
            if differs {
                found.push(what.to_owned());
            }
        };
        let names =
            |of: &[AdapterIdentity]| -> Vec<String> { of.iter().map(|one| one.files.clone()).collect() };
        let same_list = listed(adapters) == listed(&now.adapters);
        other("an adapter's file has changed", same_list && names(adapters) != names(&now.adapters));
        other("the model's weights have changed", *weights != now.weights);
        other(
            "the model's numbers have changed (its spec, its keys, --set or --quant)",
            *weights == now.weights && *config != now.config,
        );
        other(
            "the files that change the model (X-LoRA, a mixture, an importance matrix) have changed",
            *beside != now.beside,
        );
        found
    }
}

fn listed(adapters: &[AdapterIdentity]) -> String {
    let one = |adapter: &AdapterIdentity| match adapter.weight {
        1.0 => adapter.name.clone(),
        weight => format!("{}={weight}", adapter.name),
    };
    joined(&adapters.iter().map(one).collect::<Vec<_>>())
}

fn joined(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(" + ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> StateIdentity {
        StateIdentity {
            engine: "menagerie 0.1.0, order 1".to_owned(),
            architecture: "llama".to_owned(),
            config: "c".to_owned(),
            weights: "w".to_owned(),
            beside: None,
            adapters: vec![AdapterIdentity { name: "a".to_owned(), files: "f".to_owned(), weight: 0.5 }],
            kv_type: "f16".to_owned(),
            device: "cpu".to_owned(),
            arithmetic: "fast".to_owned(),
            effects: Vec::new(),
            plugins: Vec::new(),
        }
    }

    /// A change, and words of its message.
    type Case = (fn(&mut StateIdentity), &'static str);

    #[test]
    fn each_difference_is_said_by_name() {
        let was = identity();
        assert!(was.differences(&identity()).is_empty());
        let changes: [Case; 12] = [
            (
                |one| one.engine = "menagerie 0.2.0, order 2".to_owned(),
                "the program was menagerie 0.1.0, order 1 and is",
            ),
            (|one| one.architecture = "qwen2".to_owned(), "the architecture was llama and is qwen2"),
            (|one| one.config = "d".to_owned(), "--set or --quant"),
            (|one| one.weights = "x".to_owned(), "the model's weights have changed"),
            (|one| one.beside = Some("b".to_owned()), "X-LoRA, a mixture"),
            (|one| one.adapters.clear(), "the set of adapters was a=0.5 and is none"),
            (|one| one.adapters[0].files = "g".to_owned(), "an adapter's file has changed"),
            (|one| one.kv_type = "q8_0".to_owned(), "the cache type was f16 and is q8_0"),
            (|one| one.device = "cuda".to_owned(), "the device was cpu and is cuda"),
            (|one| one.arithmetic = "exact".to_owned(), "the arithmetic was fast and is exact"),
            (
                |one| one.plugins.push("a/b 1.0 ab12".to_owned()),
                "the list of plugins was none and is a/b 1.0 ab12",
            ),
            (|one| one.effects.push("happy=2".to_owned()), "the effect of hooks was none and is happy=2"),
        ];
        for (change, words) in changes {
            let mut now = identity();
            change(&mut now);
            let found = was.differences(&now);
            assert!(found.len() == 1 && found[0].contains(words), "{found:?} instead of {words}");
        }
    }
}
