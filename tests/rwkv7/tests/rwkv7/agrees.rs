//! Logits are llama.cpp's.

use crate::eight_bits;
use crate::way::{self, MODELS, Way, reference};
use menagerie::engine::{Arithmetic, KvType, TextPipeline};
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, LoadQuantization};
use menagerie::quantize::Policy;
use menagerie_conformance::{distance, divergence, options, rows};

/// Eight times the largest difference measured on prompts (1.2e-5, `arwkv7`); llama.cpp and the formulas in float64 differ by up to
/// 2.2e-5 on the long text.
const TOLERANCE: f32 = 1e-4;

/// Keys and values are not there: weights alone decide what is f32.
fn load() -> LoadOptions {
    options(Arithmetic::Fast).with_kv_type(KvType::F32)
}

fn far(
    pipeline: &TextPipeline,
    tokens: &[u32],
    wanted: &[f32],
    chunk: usize,
    decode_from: Option<usize>,
) -> f32 {
    let found =
        rows(pipeline, tokens, &LogitsOptions::default().with_chunk(chunk).with_decode_from(decode_from));
    let width = found[0].len();
    distance(&found[found.len() - wanted.len() / width..], wanted)
}

#[test]
fn logits_are_those_of_llama_cpp() {
    for (way, name) in Way::ALL.into_iter().flat_map(|way| MODELS.map(|name| (way, name))) {
        let (pipeline, reference) = (way.open(name, &load()), reference(name));
        let prompt = reference.ids("tokens_prompt");
        for (what, chunk, decode_from) in [
            ("whole", 512, None),
            ("in chunks of 9", 9, None),
            ("row by row", 1, None),
            ("decoded from 11", 512, Some(11)),
        ] {
            let far = far(&pipeline, &prompt, &reference.values("logits_prompt"), chunk, decode_from);
            assert!(far < TOLERANCE, "{way:?}, {name}, prompt {what}: {far:e}");
        }
        for (text, then) in [("prompt", "greedy"), ("long", "long_greedy")] {
            let mut tokens = reference.ids(&format!("tokens_{text}"));
            let start = tokens.len();
            let said = reference.ids(&format!("tokens_{then}"));
            tokens.extend(&said[..said.len() - 1]);
            let wanted = reference.values(&format!("logits_{then}"));
            let far = far(&pipeline, &tokens, &wanted, 512, Some(start));
            assert!(far < TOLERANCE, "{way:?}, {name}, {then}: {far:e}");
        }
        let far = far(&pipeline, &reference.ids("tokens_long"), &reference.values("logits_long"), 64, None);
        assert!(far < TOLERANCE, "{way:?}, {name}, long: {far:e}");
    }
}

/// The host multiplies with quantized linears of a component like with its own. The file is what the converter writes for
/// `q8_0`; the reference is the formulas over weights that gguf-py rounded in the same way.
#[test]
fn a_file_of_8_bits_agrees() {
    let folder = tempfile::tempdir().unwrap();
    for (way, name) in Way::ALL.into_iter().flat_map(|way| MODELS.map(|name| (way, name))) {
        let file = folder.path().join(format!("{name}.gguf"));
        eight_bits::write(&way::model(name), &file);
        let load = load().with_arithmetic(Arithmetic::Exact);
        let (pipeline, reference) = (way.open_at(&file, name, &load), reference(name));
        let wanted = reference.values("logits_q8_0_prompt");
        let rounded = far(&pipeline, &reference.ids("tokens_prompt"), &wanted, 512, None);
        assert!(rounded < TOLERANCE, "{way:?}, {name}: {rounded:e}");
        let plain = reference.values("logits_prompt");
        let apart = distance(std::slice::from_ref(&wanted), &plain[plain.len() - wanted.len()..]);
        assert!(apart > 100.0 * TOLERANCE, "rounding moves logits by {apart:e} only");
    }
}

/// Quantized while it is loaded, by the roles and names of the component's linears.
#[test]
fn a_model_is_quantized_while_it_is_loaded() {
    for (way, name) in Way::ALL.into_iter().flat_map(|way| MODELS.map(|name| (way, name))) {
        let policy = Policy::named("q8_0").unwrap();
        let quantization = LoadQuantization { policy, importance: None, requantize: false };
        let load = load().with_quantization(quantization);
        let (pipeline, reference) = (way.open(name, &load), reference(name));
        let options = LogitsOptions::default().with_decode_from(5);
        let found = rows(&pipeline, &reference.ids("tokens_prompt"), &options);
        let wanted = reference.values("logits_prompt");
        let kl = divergence(&found, &wanted);
        assert!(kl < 0.03, "{way:?}, {name}: KL {kl:e}");
        assert!(distance(&found, &wanted) > 100.0 * TOLERANCE, "{way:?}, {name}: nothing was quantized");
    }
}
