//! Conversion of a Hugging Face model folder to a GGUF file, by the spec of its architecture.
//!
//! A spec maps the names in a folder to the names in GGUF files: roles are tensor names, and canonical keys are metadata
//! keys. Options with a value per source (`pairs`, `offset`) say how rows are reordered and norms changed.
//! [`Conversion::plan`] lists the content of the file and resolves the spec for it. If the file would be a different
//! model, this is an error before anything is written. [`ConversionPlan::write`] then writes tensor by tensor.
#![forbid(unsafe_code)]

mod conversion;
mod conversion_plan;
mod error;
mod metadata;
mod output_types;
mod rope_factors;
mod tensor_conversion;
mod tensor_placement;

pub use conversion::Conversion;
pub use conversion_plan::ConversionPlan;
pub use error::ConvertError;
pub use output_types::OutputTypes;
