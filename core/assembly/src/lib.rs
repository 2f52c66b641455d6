//! [`ModelConfig`](menagerie_spec::ModelConfig) and weights to a model: maps each kind to a type, claims every tensor of
//! the file, and reports all faults at once.
//!
//! Start at [`assemble`]. [`WeightSource`] gives tensors by role, [`GgufSource`] is the one over a GGUF file.
#![forbid(unsafe_code)]

mod assembler;
mod attention;
mod claims;
mod dims;
mod ends;
mod fault;
mod feed_forward;
mod gguf_source;
mod model;
mod moe;
mod norm;
mod rope;
mod source;

pub use claims::{Claim, IgnoredTensor};
pub use fault::{AssemblyFault, AssemblyFaults};
pub use gguf_source::{GgufSource, PlainNames, TensorNaming};
pub use model::{AssembleOptions, AssembledModel, Assembly, assemble};
pub use source::{Part, TensorEntry, WeightSource};
