//! Random models of real sizes from a spec alone, for measuring speed and memory without a download.
//!
//! The weights are valid blocks with a standard deviation of about `1 / sqrt(columns)`, so that activations neither
//! vanish nor overflow; the generated text has no meaning. In the opposite direction, [`draft`] drafts a spec for a
//! model.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod draft;
mod error;
mod file_types;
mod synthesis;
mod tensor_plan;
mod tiny_model;

pub use error::SynthError;
pub use file_types::{file_types, policy};
pub use synthesis::{Synthesis, write};
pub use tiny_model::{tiny_keys, tiny_value};
