//! A model folder of Hugging Face's form to a GGUF file, from the spec of its architecture read backwards.
//!
//! A spec says what each name of a folder is in the names of GGUF files: roles are tensor names, canonical keys are metadata
//! keys, and what differs per source (`pairs`, `offset`) is how rows are put in another order and norms changed.
//! [`Conversion::plan`] lists what a file will hold and resolves the spec against that list: a file that would be another
//! model than the folder is refused before anything is written. [`Plan::write`] then writes tensor by tensor.
#![forbid(unsafe_code)]

mod change;
mod conversion;
mod error;
mod keys;
mod placing;
mod plan;
mod tensor;

pub use conversion::Conversion;
pub use error::ConvertError;
pub use plan::{Plan, Progress};
pub use tensor::Types;
