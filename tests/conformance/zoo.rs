//! The zoo of dropped specs on the CPU; and wrong specs, which must not go unseen.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

#[path = "zoo/heads.rs"]
mod heads;

use menagerie::engine::Arithmetic;
use menagerie_conformance::suite::encoders::{self, every_encoder_agrees};
use menagerie_conformance::suite::zoo::{ENCODERS, Opened, TOLERANCE, WHOLE, entries, every_fixture_agrees};
use menagerie_conformance::{Reference, fixtures, options};

#[test]
fn every_fixture_agrees_on_the_cpu() {
    every_fixture_agrees(&options(Arithmetic::Fast), &[]);
}

#[test]
fn every_fixture_is_in_the_manifest() {
    let folder = std::fs::read_dir(fixtures().join("zoo")).unwrap().map(|item| item.unwrap().path());
    let mut there: Vec<String> = folder
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    there.sort();
    let listed: Vec<String> = entries().into_iter().map(|entry| entry.name).collect();
    assert_eq!(there, listed);
    let open = |name: &str| Reference::open(&fixtures().join("zoo").join(name).join("reference.safetensors"));
    let encoders: Vec<&String> = listed.iter().filter(|name| !open(name).has("logits_prompt")).collect();
    assert_eq!(encoders, ENCODERS);
    let decodes = |name: &str| open(name).has("tokens_greedy") && open(name).has("tokens_long_greedy");
    let whole: Vec<&String> =
        listed.iter().filter(|name| !decodes(name) && !ENCODERS.contains(&name.as_str())).collect();
    assert_eq!(whole, WHOLE);
}

#[test]
fn what_sees_the_whole_text_refuses_a_part_of_it() {
    let entries = entries();
    for name in WHOLE {
        let entry = entries.iter().find(|entry| entry.name == name).unwrap();
        let opened = Opened::new(entry, &str::to_owned, options(Arithmetic::Fast)).unwrap();
        for (chunk, decode_from) in [(9, None), (512, Some(11))] {
            let error = opened.in_parts(chunk, decode_from).unwrap_err();
            assert!(error.contains("later tokens"), "{name}: {error}");
        }
    }
}

/// A fixture, a piece of its spec, and what is written there instead: each loads, and must be seen in the logits.
const WRONG: &[(&str, &str, &str)] = &[
    ("command-r", r#""logit_scale | default(1)""#, r#""logit_scale * 2""#),
    ("command-r", r#""adjacent""#, r#""halves""#),
    ("cohere2", r#"size = "attention.sliding_window""#, r#"size = "attention.sliding_window + 1""#),
    ("cohere2", r#"sliding_window_pattern', 4)"#, r#"sliding_window_pattern', 3)"#),
    ("falcon", r#""gelu-erf""#, r#""gelu-tanh""#),
    ("falcon-40b", r#"reads = "block-input""#, r#"reads = "stream""#),
    ("gemma3", r#""sqrt(embedding_length)""#, r#""1""#),
    ("gemma3", r#""final_logit_softcapping | default(0)""#, r#""final_logit_softcapping * 2""#),
    ("granite", r#""residual_scale | default(1)""#, r#""residual_scale * 1.01""#),
    ("granitemoe", r#""1 / logit_scale""#, r#""logit_scale""#),
    ("olmo3", r#"when = "not local""#, r#"when = "true""#),
    ("stablelm-12b", r#""before-rope""#, r#""after-rope""#),
    ("lfm2", r#""before-rope""#, r#""after-rope""#),
    ("llama4", r#"kind = "chunked""#, r#"kind = "sliding""#),
    ("llama4", r#""to-input""#, r#""to-output""#),
    ("gemma4", r#"v_norm    = { over = "head", weight = "none" }"#, ""),
    ("gemma4", r#"when = "not local" }      #"#, r#"when = "local" }      #"#),
    ("gemma4-full", r#"token_scale      = "sqrt(embedding_length_per_layer_input)""#, "token_scale = 1"),
    ("gemma4-moe", r#"input        = "stream""#, r#"input = "branch""#),
    ("gemma4-moe", r#"{ reads = "stream", pre"#, r#"{ reads = "branch", pre"#),
    ("deepseek2-v3", r#""mscale * mscale / sqrt(head)""#, r#""mscale / sqrt(head)""#),
    ("deepseek2-v3", r#"false = "sum-of-best-two""#, r#"false = "best""#),
    ("deepseek2-lite", r#""adjacent""#, r#""halves""#),
    (
        "llama-window",
        r#"size = "attention.sliding_window | default(0)""#,
        r#"size = "attention.sliding_window + 1""#,
    ),
    ("llama-yarn", "(1 + 0.1 * ln(rope.scaling.factor)) /", "(1 + 0.11 * ln(rope.scaling.factor)) /"),
    ("afmoe", r#"activation = "sigmoid" }"#, r#"activation = "softplus" }"#),
    ("bloom", "max_bias = 8", "max_bias = 8.1"),
    ("bloom-6heads", "max_bias = 8", "max_bias = 8.1"),
    ("gpt-oss", "alpha = 1.702", "alpha = 1.7"),
    ("gpt-oss", "limit = 7.0", "limit = 1.0"),
    ("apertus", r#"alpha_n = "xielu.alpha_n""#, r#"alpha_n = "xielu.alpha_n + 0.1""#),
    ("phimoe", "jitter = 0.01", "jitter = 0.1"),
    ("llama-linear", r#""rope.freq_base | default(10000)""#, r#""rope.freq_base * 1.01""#),
];

#[test]
fn every_encoder_agrees_on_the_cpu() {
    every_encoder_agrees(&options(Arithmetic::Fast));
}

/// As [`WRONG`], of encoders; the activation moves the least of it, 4e-4 of the hidden states.
#[test]
fn a_wrong_spec_of_an_encoder_is_seen() {
    for (name, from, to) in [
        ("bert", "token_types = \"token_types\"", ""),
        ("bert", "positions   = \"position_embd\"", ""),
        ("bert", "\"bidirectional\"", "\"causal\""),
        ("bert", "\"gelu-erf\"", "\"gelu-tanh\""),
        ("bert", "after = \"layer_output_norm\"", "post = \"layer_output_norm\""),
        ("t5encoder", "max_distance = 128", "max_distance = 64"),
        ("t5encoder", "scale         = 1 ", "scale = 0.9 "),
        ("jina-bert-v2-code", "again = ", "post = "),
        ("gemma-embedding-dense", "dense   = { first = \"dense_2\", second = \"dense_3\" }", ""),
    ] {
        let wrong = |text: &str| {
            assert!(text.contains(from), "the spec has no {from}");
            text.replace(from, to)
        };
        // What is left out leaves a tensor that nothing claims, which is refused before anything is computed.
        match encoders::Opened::new(name, &wrong, options(Arithmetic::Fast)) {
            Err(error) => {
                assert!(
                    to.is_empty() && error.contains("no component of the model uses it"),
                    "{from}: {error}"
                )
            }
            Ok(opened) => {
                let far = opened.distances().into_iter().map(|(_, found)| found).fold(0.0, f32::max);
                assert!(far > 3.0 * TOLERANCE, "{to:?} for {from:?} moves the hidden states by {far:e} only");
            }
        }
    }
}

#[test]
fn a_wrong_spec_is_seen() {
    let entries = entries();
    let mut unseen = Vec::new();
    for (name, from, to) in WRONG {
        let entry = entries.iter().find(|entry| entry.name == *name).unwrap();
        let wrong = |text: &str| {
            assert!(text.contains(from), "{name}: the spec has no {from}");
            text.replace(from, to)
        };
        let found = Opened::new(entry, &wrong, options(Arithmetic::Fast))
            .unwrap_or_else(|e| panic!("{name}, {from}: {e}"));
        let found = found.prompt(512, None);
        if found <= 10.0 * TOLERANCE {
            unseen.push(format!("{name}: {to:?} for {from:?} moves the logits by {found:e} only"));
        }
    }
    assert!(unseen.is_empty(), "{}", unseen.join("\n"));
}
