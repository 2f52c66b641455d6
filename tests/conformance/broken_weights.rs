//! Weights that are no numbers, and numbers that a cache cannot hold: an error by name, on every backend, never a text.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::cpu::CpuBackend;
use menagerie::engine::{Arithmetic, GenerateError, KvType, Request};
use menagerie::gguf::{GgufFile, OpenOptions};
use menagerie::kernels::Cpu;
use menagerie::measure::{LogitsOptions, logits};
use menagerie::model::{Activation, Backend, Gating, Rows};
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie_candle::CandleBackend;
use menagerie_conformance::{Reference, distance, fixtures, on_candle, options, rewrite, rows};
use std::path::PathBuf;

fn model(name: &str) -> PathBuf {
    fixtures().join("base").join(name).join("model-f32.gguf")
}

fn tensors(name: &str) -> Vec<String> {
    let file = GgufFile::open(model(name), &OpenOptions::default()).unwrap();
    file.tensors().iter().map(|tensor| tensor.name().to_owned()).collect()
}

/// The middle of a tensor: of the embedding, the token in the middle of the vocabulary, which the prompt has.
fn break_middle(data: &mut [u8], value: f32) {
    let at = data.len() / 8 * 4;
    data[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// One number of one tensor is `value`: nothing is said but an error, in one step and in a generation.
fn expect_error(name: &str, tensor: &str, value: f32, options: &LoadOptions) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    rewrite(&model(name), &path, &|found, data| {
        if found == tensor {
            break_middle(data, value);
        }
    });
    // Vectors are read when the file is opened.
    let pipeline = match ModelBuilder::new(&path).with_options(options).open_text() {
        Ok(pipeline) => pipeline,
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains(tensor) && error.contains("the file is damaged"), "{error}");
            return;
        }
    };
    let middle = pipeline.vocabulary() as u32 / 2;
    let prompt: Vec<u32> = (middle - 20..middle + 20).collect();
    let what = format!("{name}: {tensor} with {value}");
    let error = logits(&pipeline, &prompt, &LogitsOptions::default()).expect_err(&what);
    assert!(matches!(error, GenerateError::NotFinite { .. }), "{what}: {error}");
    assert!(error.to_string().contains("checksum"), "{what}: {error}");
    // One expert's number is that of the tokens which take it; the prompt's last one may not.
    if tensor.contains("_exps") {
        return;
    }
    let mut said = 0;
    let request = Request::greedy(3).with_ignore_eos(true);
    let outcome = pipeline.session().unwrap().generate(&prompt, &request, |_| said += 1);
    assert!(outcome.is_err() && said <= 1, "{what}: {said} events");
}

fn every_tensor_matters(options: &LoadOptions) {
    for name in ["llama", "phi2", "qwen3moe", "mixtral"] {
        for tensor in tensors(name) {
            for value in [f32::NAN, f32::INFINITY] {
                expect_error(name, &tensor, value, options);
            }
        }
    }
}

#[test]
fn a_number_that_is_none_is_an_error_on_the_cpu() {
    every_tensor_matters(&options(Arithmetic::Fast));
}

#[test]
fn a_number_that_is_none_is_an_error_on_candle() {
    every_tensor_matters(&on_candle(options(Arithmetic::Fast)));
}

/// Every operation on rows gives what is no number on, wherever it stands in them.
#[test]
fn backends_keep_what_is_no_number() {
    let cpu = CpuBackend::new(Cpu::new(Some(1)).unwrap());
    let candle = CandleBackend::open("candle").unwrap();
    let backends: [&dyn Backend; 2] = [&cpu, &candle];
    for (backend, place) in backends.iter().flat_map(|backend| (0..24).map(move |place| (backend, place))) {
        let ones = || backend.upload(vec![1.0; 24], 24).unwrap();
        let broken = || {
            let mut values = vec![1.0; 24];
            values[place] = f32::NAN;
            backend.upload(values, 24).unwrap()
        };
        let name = backend.name();
        let expect = |what: &str, rows: Rows| {
            assert!(backend.read(&rows).unwrap()[place].is_nan(), "{name}: {what} {place}");
        };
        let vector = backend.vector("ones", vec![1.0; 24]).unwrap();
        expect("add", backend.add(broken(), &ones()).unwrap());
        expect("added", backend.add(ones(), &broken()).unwrap());
        expect("multiply", backend.multiply(broken(), &ones()).unwrap());
        expect("add_vector", backend.add_vector(broken(), &vector).unwrap());
        expect("multiply_vector", backend.multiply_vector(broken(), &vector).unwrap());
        expect("scale", backend.scale(broken(), 0.0).unwrap());
        expect("scale_rows", backend.scale_rows(broken(), &[0.0]).unwrap());
        expect("factor of a row", backend.scale_rows(ones(), &[f32::NAN]).unwrap());
        expect("clamp", backend.clamp(broken(), 5.0).unwrap());
        expect("softcap", backend.softcap(broken(), 5.0).unwrap());
        expect("rms_norm", backend.rms_norm(&broken(), Some(&vector), 1e-5).unwrap());
        expect("layer_norm", backend.layer_norm(&broken(), Some(&vector), None, 1e-5).unwrap());
        for &activation in Activation::ALL {
            expect(&format!("{activation:?}"), backend.activate(broken(), activation).unwrap());
            expect(
                &format!("gate, {activation:?}"),
                backend.gated(broken(), &ones(), Gating::Plain(activation)).unwrap(),
            );
            expect(
                &format!("up, {activation:?}"),
                backend.gated(ones(), &broken(), Gating::Plain(activation)).unwrap(),
            );
        }
        let gate = backend.upload(vec![f32::NAN], 1).unwrap();
        for activation in [Activation::Sigmoid, Activation::Softplus] {
            expect("gate of rows", backend.gate_rows(ones(), &gate, activation).unwrap());
        }
    }
}

/// Keys a million times as large and queries as much smaller: the same model, but its keys leave the range of f16.
#[test]
fn a_cache_that_overflows_says_which_to_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    rewrite(&model("llama"), &path, &|name, data| {
        let factor = match name {
            "blk.1.attn_k.weight" => 1e6,
            "blk.1.attn_q.weight" => 1e-6,
            _ => return,
        };
        for word in data.as_chunks_mut::<4>().0 {
            *word = (f32::from_le_bytes(*word) * factor).to_le_bytes();
        }
    });
    let reference = Reference::open(&fixtures().join("base/llama/reference.safetensors"));
    let prompt = reference.ids("tokens_prompt");
    for (what, usual) in
        [("cpu", options(Arithmetic::Fast)), ("candle", on_candle(options(Arithmetic::Fast)))]
    {
        let open = |kv_type| {
            ModelBuilder::new(&path).with_options(&usual.clone().with_kv_type(kv_type)).open_text().unwrap()
        };
        let error = logits(&open(KvType::F16), &prompt, &LogitsOptions::default()).unwrap_err().to_string();
        assert!(error.contains("try --kv-type f32"), "{what}: {error}");
        let whole = LogitsOptions::default().with_chunk(512);
        let found = distance(&rows(&open(KvType::F32), &prompt, &whole), &reference.values("logits_prompt"));
        assert!(found <= 1e-4, "{what}: with an f32 cache it differs by {found:e}");
    }
}
