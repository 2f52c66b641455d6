//! Models of real shapes with random weights, from a spec alone: for measuring speed and memory without a download.
//!
//! The weights are valid blocks with a spread of about `1 / sqrt(columns)`, so that activations neither die nor
//! overflow; what such a model says means nothing. The other way round, [`draft`] makes a spec from a model alone.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod draft;
mod error;
mod model;
mod plan;
mod policy;
mod tiny;

pub use error::SynthError;
pub use model::{Synthesis, write};
pub use plan::{Planned, plan};
pub use policy::{file_types, policy};
pub use tiny::{tiny_keys, tiny_value};
