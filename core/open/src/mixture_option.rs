//! [`MixtureOption`]: which feed-forwards become experts of a model, and the gate that chooses among them.

use menagerie_spec::MixtureChoice;
use std::path::PathBuf;

/// A mixture of experts that replaces feed-forwards of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct MixtureOption {
    /// Layers whose feed-forward becomes a mixture. `None`: all layers.
    pub layers: Option<Vec<usize>>,
    /// The experts after the model's own feed-forward, in order.
    pub experts: Vec<ExpertOption>,
    /// The gate that chooses among the experts.
    pub gate: GateOption,
    /// Which rows choose an expert together.
    pub choose: MixtureChoice,
}

/// Where an expert comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum ExpertOption {
    /// The feed-forwards of another model of the same architecture: its file or folder.
    Model(PathBuf),
    /// The model's own feed-forwards with an adapter.
    Adapter {
        /// The file or folder of the adapter.
        path: PathBuf,
        /// The modules of the adapter that are used, by the last part of their names. `None`: all modules.
        modules: Option<Vec<String>>,
    },
}

/// Where the gate of a mixture comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum GateOption {
    /// A trained gate: a safetensors file.
    File(PathBuf),
    /// Always the expert with this number, counted from 0. Gates are trained on rows that are computed this way.
    Always(usize),
}

impl MixtureOption {
    /// A short description of each expert, in order; the model's own feed-forward is the first.
    pub fn names(&self) -> Vec<String> {
        let other = |expert: &ExpertOption| match expert {
            ExpertOption::Model(path) => path.display().to_string(),
            ExpertOption::Adapter { path, modules: None } => format!("the base with {}", path.display()),
            ExpertOption::Adapter { path, modules: Some(modules) } => {
                format!("the base with {} ({})", path.display(), modules.join(", "))
            }
        };
        std::iter::once("the base".to_owned()).chain(self.experts.iter().map(other)).collect()
    }
}
