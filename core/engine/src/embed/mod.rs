//! Texts to vectors and scores: encoders, and language models without their head. No state is kept between calls.

mod engine;
mod pipeline;
mod queue;
mod truncation;

pub(crate) use engine::EmbeddingInput;
pub use engine::{EmbeddingEngine, EmbeddingOptions, Normalization};
pub use pipeline::EmbeddingPipeline;
pub use queue::{VectorCompletion, VectorQueue};
pub use truncation::{DocumentScores, TextTokens, Truncation};
