//! Adapters on disk, and what they are in a model: PEFT folders, llama.cpp's GGUF files, and X-LoRAs that mix several.
//!
//! [`AdapterFile::open`] reads either format into the same [`AdapterModule`]s: per module two narrow matrices and their
//! factor, DoRA's magnitudes, a bias, or a weight of its own. [`fit`] finds where they belong in one model: modules by
//! the spec's names read backwards, rows in the order of the model's format, slices where a module is several linears;
//! it gives the [`menagerie_model::Adapter`] that forwards know by numbers. What would change the result in a way that
//! is not understood is refused, by file and module. [`XLora::open`] reads several adapters with the classifier that mixes
//! them; [`XLora::fit`] puts them around a model.
#![forbid(unsafe_code)]

mod error;
mod file;
mod fit;
mod gguf;
mod module;
mod peft;
mod place;
mod tensor;
mod xlora;

pub use error::AdapterError;
pub use file::{AdapterFile, AdapterFormat};
pub use fit::{FitTarget, fit, fit_stage};
pub use module::{AdapterModule, LowRankPair, ModuleChange};
pub use place::{ModulePlace, places};
pub use tensor::Tensor;
pub use xlora::{Ordering, XLora, XLoraConfig, XLoraLayout, XLoraMember};
