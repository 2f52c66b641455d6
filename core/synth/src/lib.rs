//! Models of real shapes with random weights, from a spec alone: for measuring speed and memory without a download.
//!
//! The weights are valid blocks with a standard deviation of about `1 / sqrt(columns)`, so that activations neither vanish
//! nor overflow; the generated text has no meaning. In the opposite direction, [`draft`] makes a spec from a model alone.
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
