//! f32 weights to the block types of GGUF files.
//!
//! An [`Encoder`] turns rows into blocks of one type, over the threads of a [`Cpu`](menagerie_kernels::Cpu). With
//! *importance*, a weight for each column (how large the activations are that meet it), errors are kept where they matter.
//!
//! ```
//! use gguf_file::GgmlType;
//! use menagerie_kernels::Cpu;
//! use menagerie_quantize::Encoder;
//!
//! let encoder = Encoder::new(GgmlType::Q4_0, &Cpu::new(None)?)?;
//! let weights: Vec<f32> = (0..512).map(|i| (i as f32).sin()).collect();
//! let mut blocks = vec![0; encoder.bytes(2, 256)?];
//! encoder.encode(&weights, 256, None, &mut blocks)?;
//! assert_eq!(blocks.len(), 2 * 8 * 18);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod encoder;
mod error;
mod file;
mod importance;
mod policy;
mod tensor;

pub use encoder::Encoder;
pub use error::QuantizeError;
pub use file::{FileProgress, FileQuantizer, PlannedTensor, is_rounded};
pub use importance::{Importance, InputSquares};
pub use policy::{Choice, ModelFacts, Policy, PolicyTensor};
pub use tensor::TensorSource;
