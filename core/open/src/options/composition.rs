//! [`CompositionOptions`]: what is combined with a base model.

use crate::mixture_option::{ExpertOption, GateOption, MixtureOption};
use menagerie_engine::setters;
use menagerie_spec::AdapterKind;
use std::path::{Path, PathBuf};

/// What is combined with a base model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CompositionOptions {
    /// Adapters that act on the model's linears.
    pub adapters: Vec<AdapterOption>,
    /// A mixture of experts that replaces the model's feed-forwards.
    pub mixture: Option<MixtureOption>,
}

setters! { CompositionOptions:
    with_adapters(adapters: Vec<AdapterOption>),
    with_mixture(mixture: impl Into<Option<MixtureOption>>),
}

/// An adapter of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterOption {
    /// The method of the adapter.
    pub kind: AdapterKind,
    /// Its file or folder.
    pub path: PathBuf,
    /// The factor of its output; an X-LoRA ignores it and computes its own.
    pub weight: f32,
}

impl CompositionOptions {
    /// The folder of the X-LoRA, if there is one.
    pub(crate) fn xlora(&self) -> Option<&Path> {
        let xlora = self.adapters.iter().find(|adapter| adapter.kind == AdapterKind::XLora);
        xlora.map(|adapter| adapter.path.as_path())
    }

    /// The files that change what the model computes for as long as it is open.
    pub(crate) fn changing_files(&self) -> Vec<PathBuf> {
        let xlora = self.adapters.iter().filter(|adapter| adapter.kind == AdapterKind::XLora);
        let mut files: Vec<PathBuf> = xlora.map(|adapter| adapter.path.clone()).collect();
        let Some(mixture) = &self.mixture else { return files };
        files.extend(mixture.experts.iter().map(|expert| match expert {
            ExpertOption::Model(path) | ExpertOption::Adapter { path, .. } => path.clone(),
        }));
        if let GateOption::File(path) = &mixture.gate {
            files.push(path.clone());
        }
        files
    }
}
