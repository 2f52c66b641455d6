//! Names that model files use: names of tensors in GGUF files, config.json and tensors of folders.

mod gguf_names;
pub(crate) mod hf;
