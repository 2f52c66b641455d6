//! The GGUF container: header, metadata, tensor directory, tensor bytes; reader and writer. No arithmetic, no model.
//!
//! A file is opened by [`GgufFile::open`] (memory-mapped, or read into memory with [`OpenOptions::mmap`] off). Every
//! length, count and offset of the header is compared with the bytes that are there before anything is allocated, and
//! every tensor lies inside the file before a handle is returned. Opening takes less heap than four times the file plus
//! 1 MiB, for any header. Tensor types that cannot be computed with are listed like all others; only
//! [`GgufFile::data`] refuses types of unknown size.
//!
//! The header is copied out of the mapping, so metadata stays valid if the file changes. Tensor bytes stay mapped: an
//! application calls [`install_fault_guard`] once. If another process then truncates the file, the file is poisoned
//! ([`GgufFile::check_alive`]) and the process continues. To replace a model file, write a new one and rename it over
//! the old one, as [`GgufWriter`] does.
//!
//! ```
//! use gguf_file::{GgmlType, GgufFile, GgufWriter, Value};
//!
//! let mut writer = GgufWriter::new();
//! writer.metadata("general.architecture", "llama")?;
//! writer.tensor("output_norm.weight", &[2], GgmlType::F32, vec![0, 0, 128, 63, 0, 0, 0, 64])?;
//!
//! let file = GgufFile::from_bytes("in memory", writer.to_bytes()?)?;
//! assert_eq!(file.metadata().get("general.architecture"), Some(Value::String("llama")));
//! let norm = file.tensor("output_norm.weight").ok_or("no such tensor")?;
//! assert_eq!((norm.dims(), norm.kind().name()), (&[2][..], "F32"));
//! assert_eq!(file.data(norm)?[4..], 2.0_f32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>, versions 2 and 3, little-endian.

mod array;
mod cursor;
mod directory;
mod error;
mod file;
mod file_type;
mod foreign;
mod ggml_type;
mod guard;
mod header;
mod mapped_file;
mod metadata;
mod owned_value;
mod split;
mod storage;
mod stream;
mod tensor;
mod value;
mod writer;

pub use array::ArrayView;
pub use error::{GgufError, GgufErrorKind};
pub use file::{GgufFile, OpenOptions};
pub use file_type::FileType;
pub use ggml_type::GgmlType;
pub use guard::install_fault_guard;
pub use mapped_file::MappedFile;
pub use metadata::Metadata;
pub use owned_value::{OwnedArray, OwnedValue};
pub use stream::TensorStream;
pub use tensor::{TensorBytes, TensorInfo};
pub use value::{Value, ValueType};
pub use writer::GgufWriter;

/// Alignment of tensor data where `general.alignment` is absent, in bytes (gguf.md).
pub(crate) const DEFAULT_ALIGNMENT: u64 = 32;

/// The examples of the README are run with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
