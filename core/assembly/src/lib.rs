//! From a [`ModelConfig`](menagerie_spec::ModelConfig) and weights to a model: looks up the factory of each kind, claims
//! every tensor of the file, and reports all faults at once.
//!
//! | read | for |
//! |---|---|
//! | `formats/` | model files: GGUF and Hugging Face folders as [`ModelFile`]s, registered as [`FileFormat`]s |
//! | `source.rs` | [`WeightSource`]: the tensors of a file by role |
//! | `model.rs` | [`assemble`]: a model, or a stage of it, block by block |
//! | `assembler/` | taking tensors: names, shapes, claims, and what a factory sees |
//! | `kinds/` | the factories of the built-in kinds, registered like those of any other crate |
//! | `mixture.rs`, `stages.rs` | feed-forwards as experts of another model; all stages of a model |
#![forbid(unsafe_code)]

mod array;
mod assembler;
mod fault;
mod formats;
mod kinds;
mod mixture;
mod model;
mod options;
mod source;
mod stages;
#[cfg(test)]
mod tests;

pub use assembler::claims::{Claim, IgnoredTensor};
pub use fault::AssemblyFaults;
pub use formats::{FileFormat, GgufModel, HfModel, ModelFile, ModelTensors, bytes_on_disk, open_model};
pub use mixture::{LayerFeedForwards, assemble_feed_forwards, is_stack};
pub use model::{AssembledModel, Assembly, assemble};
pub use options::{AssembleOptions, Purpose};
pub use source::{StoredNumbers, TensorEntry, TensorPiece, TensorShare, WeightSource};
pub use stages::{PlanError, StagePlan};
