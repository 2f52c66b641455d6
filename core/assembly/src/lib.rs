//! [`ModelConfig`](menagerie_spec::ModelConfig) and weights to a model: looks the factory of each kind up, claims every
//! tensor of the file, and reports all faults at once.
//!
//! Start at [`assemble`]; `kinds/` has the factories of the built-in kinds, registered like those of any other crate. [`WeightSource`] gives tensors by role, [`GgufSource`] is the one over a GGUF file.
#![forbid(unsafe_code)]

mod array;
mod assembler;
mod claims;
mod dims;
mod ends;
mod fault;
mod file_format;
mod gguf_model;
mod gguf_source;
mod hf_model;
mod hf_source;
mod hf_storage;
mod kinds;
mod mixture;
mod model;
mod model_file;
mod options;
mod place;
mod source;
mod stages;

pub use claims::{Claim, IgnoredTensor};
pub use fault::{AssemblyFault, AssemblyFaults};
pub use file_format::{FileFormat, OpenModelFile, bytes_on_disk, open_model};
pub use gguf_model::GgufModel;
pub use gguf_source::{GgufSource, PlainNames, TensorNaming};
pub use hf_model::HfModel;
pub use hf_source::HfTensors;
pub use mixture::{LayerFeedForwards, assemble_feed_forwards, is_stack};
pub use model::{AssembledModel, Assembly, assemble};
pub use model_file::{ModelFile, ModelTensors};
pub use options::{AssembleOptions, Purpose};
pub use source::{Piece, Share, StoredNumbers, TensorEntry, WeightSource};
pub use stages::{PlanError, StagePlan};
