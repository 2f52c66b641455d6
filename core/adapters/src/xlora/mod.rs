//! X-LoRA on disk (Buehler and Buehler, 2024): a configuration, a classifier, and the adapters that it mixes.
//!
//! Sources: PEFT 0.21, `tuners/xlora`; the first publication's package xlora 0.2; mistral.rs's ordering files.

mod classifier;
mod classifier_layers;
mod config;
mod ordering;

use crate::error::{AdapterError, about};
use crate::file::AdapterFile;
use crate::fit::{FitTarget, fit, fit_stage};
use classifier::StoredClassifier;
use classifier_layers::{ClassifierLayers, ModuleScope};
use config::XLoraConfig;
use menagerie_model::{
    Adapter, AdapterSet, ModelError, NormedExecutor, ScalingLayers, TopScalings, XLoraModel,
};
use ordering::LayerOrdering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An X-LoRA as it was read, before it is applied to a model.
#[derive(Clone, Debug)]
pub struct XLora {
    /// Its configuration.
    config: XLoraConfig,
    /// The numbers of modules, if a file states them.
    ordering: Option<LayerOrdering>,
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
    /// The folder is not an X-LoRA, a file is missing or damaged, a key is unknown.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, AdapterError> {
        let folder = folder.as_ref();
        let none = || {
            let reason = "this is not an X-LoRA: there is no xlora_config.json, and no adapter_config.json with \
                 \"peft_type\": \"XLORA\"";
            about(&folder.display().to_string(), reason)
        };
        let config = XLoraConfig::read(folder)?.ok_or_else(none)?;
        let ordering = LayerOrdering::beside(folder)?;
        let classifier = StoredClassifier::read(folder, &config)?;
        let adapters = config.members.iter().map(|member| AdapterFile::open(&member.folder));
        let adapters = adapters.collect::<Result<Vec<_>, _>>()?;
        let read = Self { config, ordering, adapters, classifier };
        read.check_ordering()?;
        read.check_pass()?;
        Ok(read)
    }

    /// The folders of the adapters that the X-LoRA at a path mixes; none if it is not an X-LoRA.
    ///
    /// # Errors
    /// The configuration is faulty, or an adapter is missing.
    pub fn member_folders(path: impl AsRef<Path>) -> Result<Vec<PathBuf>, AdapterError> {
        let members = XLoraConfig::read(path)?.map(|config| config.members);
        Ok(members.into_iter().flatten().map(|member| member.folder).collect())
    }

    /// The model that it was trained on, as stated in the configuration.
    pub fn base(&self) -> Option<&str> {
        self.config.base.as_deref()
    }

    /// The model that mixes these adapters over `model`.
    ///
    /// # Errors
    /// Adapters that do not fit, layers without known numbers, a classifier for other numbers of layers or adapters.
    pub fn fit(
        &self,
        model: Box<dyn NormedExecutor>,
        target: &FitTarget,
    ) -> Result<XLoraModel, AdapterError> {
        let layers = ClassifierLayers::of(self, target, ModuleScope::All)?;
        let mut members = Vec::with_capacity(self.adapters.len());
        for (file, member) in self.adapters.iter().zip(&self.config.members) {
            members.push((Arc::new(fit(file, &member.name, target)?), self.config.global_weight));
        }
        let width = model.shape().embedding_length;
        if let Some(hidden) = self.config.hidden_size.filter(|&hidden| hidden != width) {
            let reason = format!(
                "expected {width} as in the model, found {hidden}; was the X-LoRA trained on another model?"
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

    /// The adapters for a stage of a model, and the layer of the classifier's outputs for each of its sites.
    ///
    /// # Errors
    /// Adapters that do not fit, layers without known numbers.
    pub fn fit_stage(&self, target: &FitTarget) -> Result<(Vec<Arc<Adapter>>, ScalingLayers), AdapterError> {
        let layers = ClassifierLayers::of(self, target, ModuleScope::Stage)?;
        let fitted = self.adapters.iter().zip(&self.config.members);
        let fitted = fitted.map(|(file, member)| fit_stage(file, &member.name, target).map(Arc::new));
        Ok((fitted.collect::<Result<_, _>>()?, layers.by_site.into()))
    }

    /// The memory of all adapters and of the classifier, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.adapters.iter().map(AdapterFile::memory_bytes).sum::<u64>() + self.classifier.memory_bytes()
    }

    /// The file of the configuration, for messages.
    pub fn name(&self) -> String {
        self.config.file.display().to_string()
    }

    /// The error of a classifier that does not fit, with the numbers that it has to fit.
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

    /// Checks that an ordering has the adapters in the order of the configuration.
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
                "the adapters are {} here, but {} in {}: the outputs of the classifier are assigned in this order",
                ordering.adapters.join(", "),
                names.join(", "),
                self.name()
            ),
        })
    }

    /// Refuses a choice among equal weights, which would depend on the sorting algorithm.
    fn check_pass(&self) -> Result<(), AdapterError> {
        let mixing = &self.config.mixing;
        let some = mixing.top_k.is_some_and(|k| k < self.adapters.len());
        if mixing.pass_value == 0.0 || !some {
            return Ok(());
        }
        let reason = format!(
            "the pass before the classifier gives every adapter the weight {}, and top_k_lora keeps only some of them: the \
             choice, and with it the result, is undefined; set it to 0",
            mixing.pass_value
        );
        Err(self.key("scaling_pass_value", reason))
    }

    fn key(&self, key: &str, reason: String) -> AdapterError {
        AdapterError::Key { file: self.name(), key: key.to_owned(), reason }
    }

    /// Facts for listings: key and value.
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
