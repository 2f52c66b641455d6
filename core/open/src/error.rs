//! [`LoadError`]: why a model could not be opened.

use crate::memory::{MemoryEstimate, size};
use menagerie_adapters::AdapterError;
use menagerie_assembly::AssemblyFaults;
use menagerie_model::ModelError;
use menagerie_registry::RegistryError;
use menagerie_spec::SpecFaults;
use std::error::Error;

/// Why a model could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] menagerie_loaders::LoadError),
    /// An adapter cannot be read, or does not fit the model.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// Adapters cannot be merged into the weights of a file.
    #[error("{file}: cannot merge: {reason}")]
    Merge {
        /// The file.
        file: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The files of the model cannot be found.
    #[error("{model}: {source}")]
    Locate {
        /// The model, as it was named.
        model: String,
        /// The error of the [`crate::Locate`].
        source: Box<dyn Error + Send + Sync>,
    },
    /// The architecture is unknown or invalid.
    #[error("{file}: {source}")]
    Architecture {
        /// The file.
        file: String,
        /// Why.
        source: RegistryError,
    },
    /// The spec folders cannot be read.
    #[error(transparent)]
    Registry(RegistryError),
    /// The file does not match the spec of its architecture.
    #[error(transparent)]
    Spec(SpecFaults),
    /// The tensors of the file are not those that the architecture needs.
    #[error(transparent)]
    Tensors(AssemblyFaults),
    /// A recipe cannot be used.
    #[error("recipe {file}: {reason}")]
    Recipe {
        /// The recipe.
        file: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A file of a mixture is invalid, or does not fit the model.
    #[error("mixture: {file}: {reason}")]
    Mixture {
        /// The file.
        file: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The device cannot be used.
    #[error("device {device}: {reason}")]
    Device {
        /// As `--device` names it.
        device: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Another kind of pipeline is needed.
    #[error("{file}: {reason}")]
    Purpose {
        /// The file.
        file: String,
        /// What it is and what to use.
        reason: String,
    },
    /// The model does not fit into memory.
    #[error("{file} needs {estimate}, but {} are free{}", size(.estimate.available.unwrap_or(0)), memory_advice(.estimate, *.fitting))]
    Memory {
        /// The file.
        file: String,
        /// The memory that it needs, and the memory that is free.
        estimate: Box<MemoryEstimate>,
        /// The largest context that fits, in tokens; 0 if none fits.
        fitting: usize,
    },
    /// The state cannot be stored with these options.
    #[error("{file}: {source}")]
    State {
        /// The file.
        file: String,
        /// Why.
        source: ModelError,
    },
    /// The model cannot be quantized with these options.
    #[error("{file}: {source}")]
    Quantization {
        /// The file.
        file: String,
        /// Why.
        source: menagerie_quantize::QuantizeError,
    },
    /// The model cannot be split into these stages, or the stages do not work together.
    #[error("{file}: cannot run in stages: {reason}")]
    Stages {
        /// The file.
        file: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The fingerprint of a file cannot be computed.
    #[error(
        "{file}: cannot read the file again for its fingerprint: {source}; has it changed since it was opened?"
    )]
    Fingerprint {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// The options are invalid.
    #[error("{0}")]
    Options(String),
}

/// What to do if a model does not fit into memory.
fn memory_advice(estimate: &MemoryEstimate, fitting: usize) -> String {
    if fitting >= 256 {
        return format!(
            "; ask for a smaller context (-c {fitting} fits), store keys and values smaller (--kv-type q8_0), or free memory"
        );
    }
    let fits = |bytes: u64| estimate.available.is_some_and(|available| bytes <= available);
    if fits(estimate.weights.saturating_add(estimate.state)) {
        return ": a step of the prompt takes most of it; compute fewer tokens at once (--chunk 512)"
            .to_owned();
    }
    if fits(estimate.weights) {
        return ": the weights leave no room for a context; store keys and values smaller (--kv-type q8_0), use a smaller \
                quantization of the model, or free memory"
            .to_owned();
    }
    ": even the weights do not fit; use a smaller quantization of the model, or a machine with more memory"
        .to_owned()
}
