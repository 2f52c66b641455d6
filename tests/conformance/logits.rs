//! The base models on the CPU; and the same weights with keys that no converter writes.
#![allow(missing_docs, clippy::expect_used, clippy::unwrap_used)]

use menagerie::engine::Arithmetic;
use menagerie::gguf::OwnedValue;
use menagerie::measure::LogitsOptions;
use menagerie::open::ModelBuilder;
use menagerie_conformance::{Reference, base_models, distance, fixtures, options, rows, with_keys};

base_models!(options(Arithmetic::Fast));

/// A value that is no number must not vanish behind the numbers after it.
#[test]
fn the_distance_sees_what_is_no_number() {
    let reference = [1.0, 2.0, 3.0, 4.0];
    for at in 0..4 {
        let mut found = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        found[at / 2][at % 2] = f32::NAN;
        assert!(distance(&found, &reference).is_nan());
    }
    assert_eq!(distance(&[vec![1.0, 2.5], vec![3.0, 4.0]], &reference), 0.5);
}

/// A base model with other keys: how far prompt and long text are from the reference.
fn rewritten(name: &str, left_out: &[&str], keys: &[(&str, OwnedValue)]) -> [f32; 2] {
    let folder = fixtures().join("base").join(name);
    let written = tempfile::tempdir().unwrap();
    let model = written.path().join("model.gguf");
    with_keys(&folder.join("model-f32.gguf"), &model, left_out, keys);
    let pipeline = ModelBuilder::new(&model)
        .with_options(&options(Arithmetic::Fast))
        .open_text()
        .unwrap_or_else(|error| panic!("{error}"));
    let reference = Reference::open(&folder.join("reference.safetensors"));
    let whole = LogitsOptions::default();
    let prompt = rows(&pipeline, &reference.ids("tokens_prompt"), &whole);
    let long = rows(&pipeline, &reference.ids("tokens_long"), &whole);
    let last: Vec<Vec<f32>> =
        reference.ids("positions_long").iter().map(|&position| long[position as usize].clone()).collect();
    [distance(&prompt, &reference.values("logits_prompt")), distance(&last, &reference.values("logits_long"))]
}

/// The formula of Llama 3 from numbers, as HF's config has them, gives what the converter's tensor of divisors gives.
#[test]
fn llama3_scaling_by_keys_is_that_of_the_reference() {
    let key = |name: &'static str, value: f32| (name, OwnedValue::F32(value));
    let with_low = |low: f32| {
        let keys = [
            ("llama.rope.scaling.type", OwnedValue::String("llama3".to_owned())),
            key("llama.rope.scaling.factor", 8.0),
            key("llama.rope.scaling.low_freq_factor", low),
            key("llama.rope.scaling.high_freq_factor", 4.0),
            ("llama.rope.scaling.original_context_length", OwnedValue::U32(64)),
        ];
        rewritten("llama", &["rope_freqs.weight"], &keys)
    };
    assert!(with_low(1.0).iter().all(|found| *found <= 1e-4), "{:?}", with_low(1.0));
    // It would be seen.
    assert!(with_low(1.5)[1] > 1e-3, "{:?}", with_low(1.5));
}

/// No converter writes the window of these models; where a file says it, it is HF's.
#[test]
fn a_window_by_key_is_that_of_the_reference() {
    let window = |size: u32| {
        let keys = [("starcoder2.attention.sliding_window", OwnedValue::U32(size))];
        rewritten("starcoder2", &[], &keys)
    };
    assert!(window(64).iter().all(|found| *found <= 1e-4), "{:?}", window(64));
    assert!(window(63)[1] > 1e-3, "{:?}", window(63));
}
