//! [`ModelError`]: what can go wrong while a model is built or run.

use std::error::Error;
use std::sync::Arc;

/// An error of a component; the container adds the layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The rows of a step do not fit together.
    #[error("sequence layout: {0}")]
    Layout(String),
    /// A tensor has a shape that the component does not accept.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// Which tensor or activation.
        what: String,
        /// The expected shape, with the names of its dimensions.
        expected: String,
        /// Shape found.
        found: String,
    },
    /// A token id is not in the vocabulary.
    #[error("token id {id} is past the vocabulary of {vocabulary} tokens")]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Rows of the embedding.
        vocabulary: usize,
    },
    /// A state operation that the state does not allow.
    #[error("state: {0}")]
    State(String),
    /// The device, type or option is not supported by this component.
    #[error("{0}")]
    Unsupported(String),
    /// The caller asked the forward to stop.
    #[error("cancelled")]
    Cancelled,
    /// A component of a plugin reported an error, or broke a rule.
    #[error("component `{component}`: {reason}")]
    Component {
        /// Its name in specs.
        component: String,
        /// What went wrong.
        reason: String,
    },
    /// A hook returned rows that cannot replace those that it received.
    #[error("hook {hook}: {reason}")]
    Hook {
        /// Its name.
        hook: String,
        /// What is wrong.
        reason: String,
    },
    /// Inside a layer.
    #[error("layer {layer}: {source}")]
    Layer {
        /// 0-based index, as in `blk.N`.
        layer: usize,
        /// What went wrong there.
        source: Box<ModelError>,
    },
    /// A stage of a split model failed, or cannot be reached.
    #[error(transparent)]
    Stage(Arc<dyn Error + Send + Sync>),
    /// The mapped weights vanished, or could not be read.
    #[error("weights: {0}")]
    Weights(String),
    /// Weights of adapters that are NaN or infinite (X-LoRA).
    #[error("scalings of X-LoRA: {0}")]
    Scalings(String),
    /// A backend refused or failed.
    #[error("{backend}: {source}")]
    Backend {
        /// The backend's name.
        backend: String,
        /// What it reports.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ModelError {
    /// What a stage reports.
    pub fn stage(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Stage(Arc::from(source.into()))
    }

    /// What a backend reports.
    pub fn backend(backend: &str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Backend { backend: backend.to_owned(), source: source.into() }
    }

    /// Adds the layer, once.
    pub fn in_layer(self, layer: usize) -> Self {
        match self {
            already @ (Self::Layer { .. } | Self::Cancelled) => already,
            other => Self::Layer { layer, source: Box::new(other) },
        }
    }
}
