//! An architecture known only from a spec: SmolLM3, built in from its TOML file alone.

use crate::{Reference, distance, fixtures, rows};
use menagerie::engine::TextPipeline;
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, ModelBuilder};

/// SmolLM3 within 1e-4 of its reference: prompt whole, in chunks, and decoded.
pub fn smollm3(options: &LoadOptions) {
    let model = fixtures().join("dropin/smollm3/model-f32.gguf");
    let pipeline =
        ModelBuilder::new(&model).with_options(options).open_text().unwrap_or_else(|e| panic!("{e}"));
    agrees(&pipeline);
}

/// A pipeline over the fixture of SmolLM3 agrees with its reference.
pub fn agrees(pipeline: &TextPipeline) {
    let reference = Reference::open(&fixtures().join("dropin/smollm3/reference.safetensors"));
    let prompt = reference.ids("tokens_prompt");
    for options in [
        LogitsOptions::default().with_chunk(512),
        LogitsOptions::default().with_chunk(9),
        LogitsOptions::default().with_chunk(512).with_decode_from(11),
    ] {
        let found = distance(&rows(pipeline, &prompt, &options), &reference.values("logits_prompt"));
        assert!(found <= 1e-4, "differs by {found:e}");
    }
}
