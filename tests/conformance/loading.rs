//! What opening a model costs before the first token: tokenizers of the size of released ones are built within the bar.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie::gguf::{GgufFile, GgufWriter, OwnedArray, OwnedValue};
use menagerie::loaders::{Special, Tokenizer, TokenizerOptions};
use menagerie_random::SplitMix64;
use std::collections::HashSet;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Time that this thread has computed, so that a busy machine fails no test; time that has passed where the system does
/// not say.
fn cpu_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = counted.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// Pairs of earlier texts whose joins are new, until there are `count` texts; none longer than twelve letters.
fn joins(letters: &[String], count: usize) -> Vec<(String, String)> {
    let mut texts = letters.to_vec();
    let mut known: HashSet<String> = texts.iter().cloned().collect();
    let (mut joins, mut random) = (Vec::new(), SplitMix64::new(1));
    while texts.len() < count {
        let mut pick = || {
            // Of the first, which are short: few joins are too long.
            texts[random.below(texts.len().min(4000))].clone()
        };
        let (left, right) = (pick(), pick());
        let joined = format!("{left}{right}");
        if joined.chars().count() <= 12 && known.insert(joined.clone()) {
            texts.push(joined);
            joins.push((left, right));
        }
    }
    joins
}

/// The best of three builds, and that the result encodes.
fn build(values: Vec<(&str, OwnedValue)>, tokens: usize) -> Duration {
    let mut writer = GgufWriter::new();
    for (key, value) in values {
        writer.metadata(key, value).unwrap();
    }
    let file = GgufFile::from_bytes("made up", writer.to_bytes().unwrap()).unwrap();
    let build = || {
        let start = cpu_time();
        let tokenizer = Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default()).unwrap();
        (cpu_time() - start, tokenizer)
    };
    let (took, tokenizer) = (0..3).map(|_| build()).min_by_key(|(took, _)| *took).unwrap();
    assert_eq!(tokenizer.vocab_size(), tokens);
    let ids = tokenizer.encode("the quick brown fox", Special::Plain).unwrap();
    assert!(ids.len() > 2 && ids.len() < 25, "{ids:?}");
    took
}

fn strings(texts: impl Iterator<Item = String>) -> OwnedValue {
    OwnedValue::Array(OwnedArray::strings(texts.collect::<Vec<_>>()))
}

/// The bar is 0.3 s; a machine of half the speed of those it was set on may take twice that.
#[test]
fn byte_pairs_of_151k_tokens() {
    let letters = (0x21..=0x7E).chain(0xA1..=0xAC).chain(0xAE..=0xFF).chain(0x100..=0x143);
    let letters: Vec<String> = letters.filter_map(char::from_u32).map(String::from).collect();
    let joins = joins(&letters, 151_000);
    let tokens = letters.iter().cloned().chain(joins.iter().map(|(left, right)| format!("{left}{right}")));
    let took = build(
        vec![
            ("tokenizer.ggml.model", OwnedValue::String("gpt2".into())),
            ("tokenizer.ggml.pre", OwnedValue::String("qwen2".into())),
            ("tokenizer.ggml.tokens", strings(tokens)),
            ("tokenizer.ggml.merges", strings(joins.iter().map(|(left, right)| format!("{left} {right}")))),
        ],
        151_000,
    );
    println!("151,000 tokens by merges: {took:?}");
    assert!(took < Duration::from_millis(600), "{took:?}");
}

#[test]
fn scores_of_262k_tokens() {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    let mut types = vec![2, 3, 3];
    types.resize(tokens.len(), 6);
    let letters: Vec<String> =
        ('a'..='z').chain('A'..='Z').chain(['\u{2581}', '.', ',']).map(String::from).collect();
    let joins = joins(&letters, 262_000 - tokens.len());
    tokens.extend(letters.iter().cloned());
    tokens.extend(joins.iter().map(|(left, right)| format!("{left}{right}")));
    types.resize(tokens.len(), 1);
    let scores: Vec<f32> = (0..tokens.len()).map(|at| -(at as f32)).collect();
    let took = build(
        vec![
            ("tokenizer.ggml.model", OwnedValue::String("llama".into())),
            ("tokenizer.ggml.tokens", strings(tokens.into_iter())),
            ("tokenizer.ggml.scores", OwnedValue::Array(OwnedArray::F32(scores))),
            ("tokenizer.ggml.token_type", OwnedValue::Array(OwnedArray::I32(types))),
        ],
        262_000,
    );
    println!("262,000 tokens by scores: {took:?}");
    assert!(took < Duration::from_millis(600), "{took:?}");
}
