//! X-LoRA on disk (Buehler and Buehler, 2024): a configuration, a classifier, and the adapters that are mixed.
//!
//! Sources: PEFT 0.21, `tuners/xlora`; the first publication's package xlora 0.2; mistral.rs's ordering files.

mod classifier;
mod config;
mod layers;
mod ordering;

use crate::error::{AdapterError, about};
use crate::file::AdapterFile;
use crate::fit::{FitTarget, fit, fit_stage};
use classifier::StoredClassifier;
pub use config::{XLoraConfig, XLoraLayout, XLoraMember};
use layers::{Layers, Modules};
use menagerie_model::{
    Adapter, AdapterSet, ModelError, NormedExecutor, ScalingLayers, TopScalings, XLoraModel,
};
pub use ordering::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An X-LoRA as it was read, before it is fitted to a model.
#[derive(Clone, Debug)]
pub struct XLora {
    /// Its folder.
    pub folder: PathBuf,
    /// Its configuration.
    pub config: XLoraConfig,
    /// The numbers of modules, where a file says them.
    pub ordering: Option<Ordering>,
    /// The adapters, in the order of the classifier's outputs.
    pub adapters: Vec<AdapterFile>,
    classifier: StoredClassifier,
}

impl XLora {
    /// Whether there is an X-LoRA at a path.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        XLoraConfig::is_at(path)
    }

    /// Reads the X-LoRA of a folder: PEFT's layout, or that of the first publication.
    ///
    /// # Errors
    /// No X-LoRA, a file that is not there or damaged, a key that nothing understands.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, AdapterError> {
        let folder = folder.as_ref();
        let none = || {
            let reason = "no X-LoRA: there is no xlora_config.json, and no adapter_config.json with \"peft_type\": \"XLORA\"";
            about(&folder.display().to_string(), reason)
        };
        let config = XLoraConfig::read(folder)?.ok_or_else(none)?;
        let ordering = Ordering::beside(folder)?;
        let classifier = StoredClassifier::read(folder, &config)?;
        let adapters = config.members.iter().map(|member| AdapterFile::open(&member.folder));
        let adapters = adapters.collect::<Result<Vec<_>, _>>()?;
        let read = Self { folder: folder.to_owned(), config, ordering, adapters, classifier };
        read.check_ordering()?;
        read.check_pass()?;
        Ok(read)
    }

    /// The model that mixes these adapters over `model`.
    ///
    /// # Errors
    /// Adapters that do not fit, layers that cannot be numbered, a classifier for other numbers of layers or adapters.
    pub fn fit(
        &self,
        model: Box<dyn NormedExecutor>,
        target: &FitTarget,
    ) -> Result<XLoraModel, AdapterError> {
        let layers = Layers::of(self, target, Modules::OfAll)?;
        let mut members = Vec::with_capacity(self.adapters.len());
        for (file, member) in self.adapters.iter().zip(&self.config.members) {
            members.push((Arc::new(fit(file, &member.name, target)?), self.config.global_weight));
        }
        let width = model.shape().embedding_length;
        if let Some(hidden) = self.config.hidden_size.filter(|&hidden| hidden != width) {
            let reason = format!(
                "for rows of {hidden}, and the model's have {width}: was it trained on another model?"
            );
            return Err(self.key("hidden_size", reason));
        }
        let count = members.len();
        let outputs = self.config.mixing.outputs(layers.count, count);
        let classifier = self.classifier.fit(&self.config, [width, outputs], target.compute);
        let classifier = classifier.map_err(|error| self.misfit(&error, layers.count, count))?;
        let failed = |error: ModelError| about(&self.name(), error.to_string());
        let set = AdapterSet::new(members, &*target.compute.backend).map_err(failed)?;
        let set = set.with_scalings(layers.by_site.into()).map_err(failed)?;
        Ok(XLoraModel::new(model, set, classifier, self.config.mixing, layers.count))
    }

    /// The adapters for a stage of a model that takes the whole of them, whose sites the target has; and by site the layer
    /// that the classifier's weights have for it.
    ///
    /// # Errors
    /// Adapters that do not fit, layers that cannot be numbered.
    pub fn fit_stage(&self, target: &FitTarget) -> Result<(Vec<Arc<Adapter>>, ScalingLayers), AdapterError> {
        let layers = Layers::of(self, target, Modules::OfStage)?;
        let fitted = self.adapters.iter().zip(&self.config.members);
        let fitted = fitted.map(|(file, member)| fit_stage(file, &member.name, target).map(Arc::new));
        Ok((fitted.collect::<Result<_, _>>()?, layers.by_site.into()))
    }

    /// Bytes of all adapters and of the classifier in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.adapters.iter().map(AdapterFile::memory_bytes).sum::<u64>() + self.classifier.memory_bytes()
    }

    /// The configuration's file, for messages.
    pub fn name(&self) -> String {
        self.config.file.display().to_string()
    }

    /// Says for which numbers the classifier would have to be.
    fn misfit(&self, error: &ModelError, layers: usize, adapters: usize) -> AdapterError {
        let file = self.classifier.name();
        match error {
            ModelError::Shape { .. } => about(
                &file,
                format!(
                    "{error}; the model has {layers} layers with adapters, and there are {adapters} adapters"
                ),
            ),
            other => about(&file, other.to_string()),
        }
    }

    /// The order of adapters in an ordering must be that of the configuration.
    fn check_ordering(&self) -> Result<(), AdapterError> {
        let Some(ordering) = &self.ordering else { return Ok(()) };
        let names: Vec<&str> = self.config.members.iter().map(|member| member.name.as_str()).collect();
        if ordering.adapters == names {
            return Ok(());
        }
        Err(AdapterError::Key {
            file: ordering.file.display().to_string(),
            key: "order".to_owned(),
            reason: format!(
                "the adapters are {} here and {} in {}: which output of the classifier is whose depends on it",
                ordering.adapters.join(", "),
                names.join(", "),
                self.name()
            ),
        })
    }

    /// Which of equal weights are kept is nobody's decision but a sorting algorithm's.
    fn check_pass(&self) -> Result<(), AdapterError> {
        let mixing = &self.config.mixing;
        let some = mixing.top_k.is_some_and(|k| k < self.adapters.len());
        if mixing.pass_value == 0.0 || !some {
            return Ok(());
        }
        let reason = format!(
            "the pass that feeds the classifier gives every adapter the weight {}, of which top_k_lora keeps some: which \
             ones is left to chance, and results with them",
            mixing.pass_value
        );
        Err(self.key("scaling_pass_value", reason))
    }

    fn key(&self, key: &str, reason: String) -> AdapterError {
        AdapterError::Key { file: self.name(), key: key.to_owned(), reason }
    }

    /// What it says of itself, for people: key and value.
    pub fn facts(&self) -> Vec<(String, String)> {
        let config = &self.config;
        let mixing = &config.mixing;
        let names: Vec<&str> = config.members.iter().map(|member| member.name.as_str()).collect();
        let mut facts = vec![
            ("adapters".to_owned(), names.join(", ")),
            ("classifier".to_owned(), format!("{} linears", config.depth)),
            ("weights".to_owned(), format!("{:?}, {:?}", mixing.spread, mixing.raw)),
        ];
        let mut fact = |key: &str, value: String| facts.push((key.to_owned(), value));
        if let Some(k) = mixing.top_k {
            let after = if mixing.kept == TopScalings::Softmax { ", softmax over them" } else { "" };
            fact("kept", format!("the {k} largest{after}"));
        }
        if mixing.pass_value != 0.0 {
            fact("scaling pass", mixing.pass_value.to_string());
        }
        if config.global_weight != 1.0 {
            fact("weight", config.global_weight.to_string());
        }
        if let Some(ordering) = &self.ordering {
            fact("ordering", ordering.file.display().to_string());
        }
        facts
    }
}
