//! The suites on candle's CPU device: the composition that its GPUs run, and how weights are taken in.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{Arithmetic, KvType};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie_conformance::suite::{dropped_in, encoders, zoo};
use menagerie_conformance::{base_models, fixtures, on_candle, options, quantized_files};

fn fast() -> LoadOptions {
    on_candle(options(Arithmetic::Fast))
}

/// The zoo's matrices are f16, whose fast products round the activations to f16 here.
fn exact() -> LoadOptions {
    on_candle(options(Arithmetic::Exact))
}

base_models!(fast());

quantized_files!(1e-4, exact(), fast());

#[test]
fn smollm3() {
    dropped_in::smollm3(&fast());
}

/// What needs latent attention, recurrences, or keys of another layer, of which candle has no form here.
const REFUSED: [&str; 20] = [
    "deepseek2-lite",
    "deepseek2-v3",
    "falcon-h1",
    "gemma4-full",
    "granitehybrid",
    "jamba",
    "kimi-linear",
    "mamba",
    "mamba-falcon",
    "mamba2",
    "minicpm3",
    "mistral4",
    "nemotron_h",
    "nemotron_h_moe",
    "nemotron_h_moe-latent",
    "plamo2",
    "plm",
    "qwen35",
    "qwen35moe",
    "qwen3next",
];

#[test]
fn every_fixture_of_the_zoo_agrees() {
    zoo::every_fixture_agrees(&exact(), &REFUSED);
}

#[test]
fn every_encoder_of_the_zoo_agrees() {
    encoders::every_encoder_agrees(&exact());
}

#[test]
fn a_cache_without_a_form_is_refused_by_name() {
    let model = fixtures().join("quant/Q4_K_M.gguf");
    let options = fast().with_kv_type(KvType::Q8_0);
    let error =
        ModelBuilder::new(&model).with_options(&options).open_text().map(drop).unwrap_err().to_string();
    assert!(error.contains("q8_0") && error.contains("candle") && error.contains("f16"), "{error}");
}

/// The device keeps weights of its own: the estimate says how many bytes, and what cannot fit is not begun.
#[test]
fn memory_is_what_the_device_takes() {
    let model = fixtures().join("quant/IQ4_XS.gguf");
    let file = menagerie::gguf::GgufFile::open(&model, &Default::default()).unwrap();
    let sum =
        |bytes: &dyn Fn(&menagerie::gguf::TensorInfo) -> u64| file.tensors().iter().map(bytes).sum::<u64>();
    let exact = exact();
    for (options, weights) in [
        (exact.clone(), sum(&|tensor| tensor.elements() * 4)),
        (fast(), sum(&|tensor| tensor.elements() * if tensor.kind().name() == "F32" { 4 } else { 2 })),
    ] {
        let pipeline =
            ModelBuilder::new(&model).with_options(&options).open_text().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(pipeline.memory().weights, weights);
    }
    let little = exact.with_memory_limit(sum(&|tensor| tensor.bytes()) * 2);
    let error =
        ModelBuilder::new(&model).with_options(&little).open_text().map(drop).unwrap_err().to_string();
    assert!(error.contains("weights") && error.contains("are free"), "{error}");
}
