//! What a language model is made of: traits, blocks, components, state and linears. No file format, no spec.
//!
//! Start at [`traits`], then [`block`] and [`stack`]; [`context`] is what travels through a forward, [`state`] is the
//! only mutable thing, and [`ops`] is the only place that computes.
#![forbid(unsafe_code)]

pub mod activation;
pub mod block;
pub mod components;
pub mod compute;
pub mod context;
pub mod error;
pub mod hook;
pub mod layout;
pub mod linear;
pub mod ops;
pub mod stack;
pub mod stage;
pub mod state;
pub mod step;
pub mod traits;
pub mod weight;

pub use activation::Activated;
pub use block::{Branch, DynBlock, Layer, Reads, TransformerBlock};
pub use compute::Compute;
pub use context::TransformContext;
pub use error::ModelError;
pub use hook::{Checkpoint, LayerHook};
pub use layout::{SequenceLayout, SequenceRows};
pub use linear::DenseLinear;
pub use stack::BlockStack;
pub use stage::{FirstStage, LastStage, MiddleStage, ModelShape, StageBody, StagePosition, WholeModel};
pub use state::{SequenceId, StateDeclarations, StateId, StateSpec, StateStore};
pub use step::{InferenceStep, RopeRegime};
pub use traits::{
    FeedForward, LanguageModel, LayerStack, Linear, Model, Norm, OutputHead, SequenceMixer, TokenEmbedding,
    TransformerModel,
};

pub use weight::{Weight, WeightBytes, WeightShape};

/// Result of everything in this crate.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;
