//! An architecture that is not built in runs from a TOML file that was dropped into a folder.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::kernels::Arithmetic;
use menagerie::pipeline::{LoadOptions, LogitsOptions, TextPipeline};
use menagerie_conformance::{Reference, distance, fixtures, options, rows};

fn with_specs(folder: &std::path::Path) -> LoadOptions {
    LoadOptions { spec_dirs: vec![folder.to_owned()], ..options(Arithmetic::Fast) }
}

#[test]
fn smollm3_is_unknown_until_its_spec_is_dropped() {
    let model = fixtures().join("dropin/smollm3/model-f32.gguf");
    let error = TextPipeline::open(&model, &options(Arithmetic::Fast)).map(drop).unwrap_err().to_string();
    assert!(error.contains("smollm3") && error.contains("spec folder"), "{error}");

    let specs = tempfile::tempdir().unwrap();
    std::fs::copy(fixtures().join("dropin/smollm3.toml"), specs.path().join("smollm3.toml")).unwrap();
    let pipeline = TextPipeline::open(&model, &with_specs(specs.path())).unwrap_or_else(|e| panic!("{e}"));
    let reference = Reference::open(&fixtures().join("dropin/smollm3/reference.safetensors"));
    let prompt = reference.ids("tokens_prompt");
    for options in [
        LogitsOptions { chunk: Some(512), decode_from: None },
        LogitsOptions { chunk: Some(9), decode_from: None },
        LogitsOptions { chunk: Some(512), decode_from: Some(11) },
    ] {
        let found = distance(&rows(&pipeline, &prompt, &options), &reference.values("logits_prompt"));
        assert!(found <= 1e-4, "differs by {found:e}");
    }
}

#[test]
fn shadowing_needs_leave_and_is_reported() {
    let specs = tempfile::tempdir().unwrap();
    let root = fixtures().join("../../specs/llama.toml");
    std::fs::copy(root, specs.path().join("llama.toml")).unwrap();
    let model = fixtures().join("base/llama/model-f32.gguf");
    let error = TextPipeline::open(&model, &with_specs(specs.path())).map(drop).unwrap_err().to_string();
    assert!(error.contains("--allow-shadow"), "{error}");

    let allowed = LoadOptions { allow_shadow: true, ..with_specs(specs.path()) };
    let pipeline = TextPipeline::open(&model, &allowed).unwrap_or_else(|e| panic!("{e}"));
    assert!(
        pipeline.notices().iter().any(|notice| notice.to_string().contains("llama.toml")),
        "{:?}",
        pipeline.notices()
    );
}
