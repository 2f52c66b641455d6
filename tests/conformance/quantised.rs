//! Quantised files against HF on the dequantised weights: within 1e-3 in `exact`, KL below 0.03 in `fast`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::kernels::Arithmetic;
use menagerie::pipeline::{LogitsOptions, TextPipeline};
use menagerie_conformance::{Reference, distance, divergence, fixtures, options, rows};

/// Prompt rows and greedy rows (row 0 = last prompt row), each through prefill and through the cache.
fn logits(name: &str, arithmetic: Arithmetic) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let folder = fixtures().join("quant");
    let pipeline = TextPipeline::open(&folder.join(format!("{name}.gguf")), &options(arithmetic));
    let pipeline = pipeline.unwrap_or_else(|e| panic!("{e}"));
    let reference = Reference::open(&folder.join(format!("{name}.reference.safetensors")));
    let mut tokens = reference.ids("tokens_prompt");
    let start = tokens.len();
    let prompt = rows(&pipeline, &tokens, &LogitsOptions { chunk: Some(512), decode_from: None });
    let greedy = reference.ids("tokens_greedy");
    tokens.extend(&greedy[..greedy.len() - 1]);
    let all = rows(&pipeline, &tokens, &LogitsOptions { chunk: Some(512), decode_from: Some(start) });
    (prompt, all[start - 1..].to_vec())
}

fn check(name: &str) {
    let reference = Reference::open(&fixtures().join("quant").join(format!("{name}.reference.safetensors")));
    let wanted = [reference.values("logits_dequant_prompt"), reference.values("logits_dequant_greedy")];
    let (prompt, greedy) = logits(name, Arithmetic::Exact);
    for (what, ours, wanted) in [("prompt", &prompt, &wanted[0]), ("greedy", &greedy, &wanted[1])] {
        let found = distance(ours, wanted);
        assert!(found <= 1e-3, "{name}, exact, {what}: differs by {found:e}, at most 1e-3");
    }
    let (prompt, greedy) = logits(name, Arithmetic::Fast);
    for (what, ours, wanted) in [("prompt", &prompt, &wanted[0]), ("greedy", &greedy, &wanted[1])] {
        let found = divergence(ours, wanted);
        assert!(found < 0.03, "{name}, fast, {what}: KL {found:e}, below 0.03");
    }
}

macro_rules! files {
    ($($test:ident => $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                check($name);
            }
        )*

        #[test]
        fn every_fixture_is_listed() {
            let listed = [$($name),*];
            for entry in std::fs::read_dir(fixtures().join("quant")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                if let Some(name) = name.strip_suffix(".gguf") {
                    assert!(listed.contains(&name), "{name}.gguf has no test");
                }
            }
        }
    };
}

files! {
    f16 => "F16";
    bf16 => "BF16";
    q4_0 => "Q4_0";
    q4_1 => "Q4_1";
    q5_0 => "Q5_0";
    q5_1 => "Q5_1";
    q8_0 => "Q8_0";
    q2_k => "Q2_K";
    q3_k_s => "Q3_K_S";
    q4_k_m => "Q4_K_M";
    q5_k_m => "Q5_K_M";
    q6_k => "Q6_K";
    iq4_nl => "IQ4_NL";
    iq4_xs => "IQ4_XS";
}
