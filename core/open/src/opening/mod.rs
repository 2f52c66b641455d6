//! From an assembled model to a pipeline with its file: what text and embeddings have in common, and what differs.

mod embedding;
mod finish;
mod sampling;
mod text;

pub(crate) use embedding::finish_embedding;
pub(crate) use text::finish_text;
