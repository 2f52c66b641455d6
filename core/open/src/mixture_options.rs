//! [`GivenMixture`]: which feed-forwards become experts of a model, and what chooses among them.

use menagerie_spec::MixtureChoice;
use std::path::PathBuf;

/// What the feed-forwards of a model become.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenMixture {
    /// Layers whose feed-forward becomes a mixture; absent = all.
    pub layers: Option<Vec<usize>>,
    /// The experts after the model's own, in order.
    pub experts: Vec<GivenExpert>,
    /// Who chooses.
    pub gate: GivenGate,
    /// Which rows choose an expert together.
    pub choose: MixtureChoice,
}

/// Where an expert is from.
#[derive(Clone, Debug, PartialEq)]
pub enum GivenExpert {
    /// The feed-forwards of another model of the same architecture: its file or folder.
    Model(PathBuf),
    /// The model's own, with an adapter.
    Adapter {
        /// Its file or folder.
        path: PathBuf,
        /// The modules that are taken of it, by the last part of their names; absent = all.
        modules: Option<Vec<String>>,
    },
}

/// Who chooses among the experts.
#[derive(Clone, Debug, PartialEq)]
pub enum GivenGate {
    /// A trained gate: a safetensors file.
    File(PathBuf),
    /// The same expert for everything, counted from 0: what a gate is trained beside.
    Always(usize),
}

impl GivenMixture {
    /// The experts in order, the model's own first, in a few words each.
    pub fn names(&self) -> Vec<String> {
        let other = |expert: &GivenExpert| match expert {
            GivenExpert::Model(path) => path.display().to_string(),
            GivenExpert::Adapter { path, modules: None } => format!("the base with {}", path.display()),
            GivenExpert::Adapter { path, modules: Some(modules) } => {
                format!("the base with {} ({})", path.display(), modules.join(", "))
            }
        };
        std::iter::once("the base".to_owned()).chain(self.experts.iter().map(other)).collect()
    }
}
