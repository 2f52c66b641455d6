//! A pipeline of texts beside one of vectors: one file, one copy of its weights.

use crate::opening::options;
use menagerie_all as _;
use menagerie_engine::{EmbeddingOptions, EmbeddingPipeline, TextPipeline};
use menagerie_measure::LogitsOptions;
use menagerie_open::{LoadQuantization, LoadedModel, ModelBuilder};
use menagerie_quantize::Policy;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TOKENS: [u32; 6] = [3, 14, 15, 9, 26, 5];

fn model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/base/llama/model-f32.gguf")
}

fn logits(pipeline: &LoadedModel<TextPipeline>) -> Vec<u32> {
    let made = menagerie_measure::logits(pipeline, &TOKENS, &LogitsOptions::default()).unwrap();
    made.values.into_iter().map(f32::to_bits).collect()
}

/// Whether the text pipeline has the file and the tensors of the other one, not others like them.
fn share(vectors: &LoadedModel<EmbeddingPipeline>, text: &LoadedModel<TextPipeline>) -> bool {
    let (one, other) = (vectors.resolved(), text.resolved());
    Arc::ptr_eq(&one.file, &other.file) && Arc::ptr_eq(&one.tensors, &other.tensors)
}

#[test]
fn what_is_open_for_vectors_is_opened_for_texts_once() {
    let policy = Policy::named("q8_0").unwrap();
    let quantization = Some(LoadQuantization { policy, importance: None, requantize: false });
    let ways = [options(), options().with_mmap(false), options().with_quantization(quantization.clone())];
    let path = model();
    let mut seen = Vec::new();
    for options in ways {
        let own = ModelBuilder::new(&path).with_options(&options).open_text().unwrap();
        let vectors = ModelBuilder::new(&path).with_options(&options).open_embedding().unwrap();
        let builder = ModelBuilder::new(&path).with_options(&options);
        let text = builder.with_opened(vectors.opened()).open_text().unwrap();
        assert!(share(&vectors, &text) && !share(&vectors, &own));
        assert!(logits(&text) == logits(&own));
        let asked = EmbeddingOptions::default().with_pooling(menagerie_model::Pooling::Mean);
        assert!(vectors.embed(&[&TOKENS], &asked).remove(0).is_ok());
        seen.push(logits(&text));
    }
    assert!(seen[0] == seen[1] && seen[0] != seen[2], "the quantized weights are those that were taken");
}

#[test]
fn another_file_is_opened_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.gguf");
    std::fs::copy(model(), &other).unwrap();
    let vectors = ModelBuilder::new(model()).with_options(&options()).open_embedding().unwrap();
    let builder = ModelBuilder::new(&other).with_options(&options()).with_opened(vectors.opened());
    assert!(!share(&vectors, &builder.open_text().unwrap()));
}
