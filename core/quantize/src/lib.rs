//! Quantization: from f32 weights to the block types of GGUF files.
//!
//! An [`Encoder`] writes rows as blocks of one type, over the threads of a [`Cpu`](menagerie_kernels::Cpu). With
//! *importance*, the mean square of the activations that each column is multiplied with, errors are smaller in columns
//! that matter.
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
mod file_quantizer;
mod importance;
mod policy;
mod tensor_source;

pub use encoder::Encoder;
pub use error::QuantizeError;
pub use file_quantizer::{FileProgress, FileQuantizer, PlannedTensor, is_rounded};
pub use importance::{Importance, InputSquares};
pub use policy::{ModelFacts, Policy, PolicyTensor, TypeChoice};
pub use tensor_source::TensorSource;
