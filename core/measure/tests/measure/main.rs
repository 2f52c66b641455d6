//! Measurements against scripted models, and what is told of them.
#![allow(missing_docs, clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../../../engine/tests/engine/byte_text.rs"]
mod byte_text;
#[path = "../../../engine/tests/engine/encoder.rs"]
mod encoder;
#[allow(dead_code)]
#[path = "../../../engine/tests/engine/fixture.rs"]
mod fixture;
mod lifecycles;
mod logits;
mod measures;

use menagerie_engine::{Engine, TextPipeline};
use std::sync::Arc;

/// A pipeline over a fake model's engine.
fn fake(engine: &Arc<Engine>) -> TextPipeline {
    TextPipeline::new("fake", Engine::clone(engine))
}
