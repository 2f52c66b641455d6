//! Keys and values in 8 bits, end to end: near the reference, smaller, and refused where a head is no whole block.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::engine::{Arithmetic, KvType};
use menagerie::measure::LogitsOptions;
use menagerie::open::{LoadOptions, ModelBuilder};
use menagerie_conformance::{Reference, distance, divergence, fixtures, options, rows};

/// A model, its reference, and the reference's logits of the prompt.
const MODELS: [(&str, &str, &str); 6] = [
    ("base/qwen3/model-f32.gguf", "base/qwen3/reference.safetensors", "logits_prompt"),
    ("base/mistral3/model-f32.gguf", "base/mistral3/reference.safetensors", "logits_prompt"),
    ("quant/F16.gguf", "quant/F16.reference.safetensors", "logits_dequant_prompt"),
    ("quant/Q8_0.gguf", "quant/Q8_0.reference.safetensors", "logits_dequant_prompt"),
    ("quant/Q4_K_M.gguf", "quant/Q4_K_M.reference.safetensors", "logits_dequant_prompt"),
    ("quant/IQ4_XS.gguf", "quant/IQ4_XS.reference.safetensors", "logits_dequant_prompt"),
];

fn with(kv_type: KvType, arithmetic: Arithmetic) -> LoadOptions {
    options(arithmetic).with_kv_type(kv_type)
}

#[test]
fn a_cache_of_8_bits_is_near_the_reference() {
    for (model, reference, name) in MODELS {
        let reference = Reference::open(&fixtures().join(reference));
        let (tokens, wanted) = (reference.ids("tokens_prompt"), reference.values(name));
        let run = |kv_type, arithmetic, decode_from| {
            let pipeline = ModelBuilder::new(fixtures().join(model))
                .with_options(&with(kv_type, arithmetic))
                .open_text()
                .unwrap();
            assert_eq!(pipeline.kv_type(), kv_type);
            let found = rows(
                &pipeline,
                &tokens,
                &LogitsOptions::default().with_chunk(512).with_decode_from(decode_from),
            );
            (found, pipeline.memory().state)
        };
        for decode_from in [None, Some(5)] {
            // With f32 arithmetic all of it is the cache's (2.8e-4 to 1.8e-3 here); else the bar of the quantized files.
            for (arithmetic, bar) in [(Arithmetic::Exact, 5e-3), (Arithmetic::Fast, 0.03)] {
                let found = divergence(&run(KvType::Q8_0, arithmetic, decode_from).0, &wanted);
                assert!(found < bar, "{model}, {arithmetic:?}, decoded from {decode_from:?}: KL {found:e}");
            }
            // It is what was asked for: neither f16 nor f32 in disguise.
            let [(q8, small), (f16, half), (_, whole)] = [KvType::Q8_0, KvType::F16, KvType::F32]
                .map(|kv_type| run(kv_type, Arithmetic::Exact, decode_from));
            assert!(distance(&q8, &wanted) > 4.0 * distance(&f16, &wanted), "{model}");
            assert_eq!((half * 2, small * 64), (whole, whole * 17), "{model}: bytes of state");
        }
    }
}

#[test]
fn a_head_of_no_whole_blocks_is_refused() {
    let model = fixtures().join("base/llama/model-f32.gguf");
    let opened = ModelBuilder::new(&model).with_options(&with(KvType::Q8_0, Arithmetic::Fast)).open_text();
    let error = opened.map(drop).unwrap_err().to_string();
    assert!(error.contains("q8_0") && error.contains("32"), "{error}");
}
