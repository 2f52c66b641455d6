//! From a path to a pipeline with its file.

mod embedding;
mod text;

pub use embedding::{open_embedding, open_embedding_with};
pub use text::{open_text, open_text_with};
