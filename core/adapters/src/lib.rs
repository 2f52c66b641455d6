//! Adapters on disk (PEFT folders, llama.cpp's GGUF files, X-LoRAs), and their mapping to the linears of a model.
//!
//! [`AdapterFile::open`] reads either format into [`AdapterModule`]s: for each module two low-rank matrices and their
//! factor, the magnitudes of DoRA, a bias, or a full weight. [`fit`] maps them to one model: modules by the names in the
//! spec, rows in the order of the model's format, and parts of a module that is several linears. The result is a
//! [`menagerie_model::Adapter`]. Whatever would change the result in an unknown way is refused, with file and module.
//! [`XLora::open`] reads several adapters with the classifier that mixes them; [`XLora::fit`] applies them to a model.
//!
//! | read | for |
//! |---|---|
//! | `file.rs`, `module.rs` | an adapter as it was read, whatever its format |
//! | `peft/`, `gguf.rs` | the two formats |
//! | `module_place.rs` | which tensors of a model a module belongs to |
//! | `fit/` | the adapter of one model |
//! | `xlora/` | X-LoRA: configuration, classifier, and its adapters in a model |
#![forbid(unsafe_code)]

mod adapter_tensor;
mod error;
mod file;
mod fit;
mod gguf;
mod module;
mod module_place;
mod peft;
mod xlora;

pub use adapter_tensor::AdapterTensor;
pub use error::AdapterError;
pub use file::{AdapterFile, AdapterFormat};
pub use fit::{FitTarget, fit, fit_stage};
pub use module::{AdapterModule, LowRankPair, ModuleChange};
pub use module_place::{ModulePlace, places};
pub use xlora::XLora;
