//! How long building a tokenizer takes: `cargo run --release -p menagerie-loaders --example build_time [FILE.gguf...]`.
//!
//! Without files: a byte-level vocabulary of 151,000 tokens and an SPM one of 262,000, both made up.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use gguf_file::{GgufFile, GgufWriter, OpenOptions, OwnedArray, OwnedValue};
use menagerie_loaders::{Special, Tokenizer, TokenizerOptions};

const TEXT: &str =
    "The quick brown fox jumps over the lazy dog, 1234 times; naïve café 日本語 and some `code(x) + 1`.\n";

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    if paths.is_empty() {
        measure("151k byte-level", &byte_level(151_000)?)?;
        measure("262k SPM", &spm(262_000)?)?;
    }
    for path in paths {
        measure(&path, &GgufFile::open(Path::new(&path), &OpenOptions::default())?)?;
    }
    Ok(())
}

fn measure(name: &str, file: &GgufFile) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let tokenizer = Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default())?;
        times.push(start.elapsed().as_secs_f64());
        drop(tokenizer);
    }
    times.sort_by(f64::total_cmp);
    let tokenizer = Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default())?;
    let text = TEXT.repeat(10_000);
    let start = Instant::now();
    let ids = tokenizer.encode(&text, Special::Plain)?;
    let encoding = start.elapsed().as_secs_f64();
    println!(
        "{name}: {} tokens, built in {:.0} ms (median of 5, best {:.0}); {:.1} MB/s, {:.2} M ids/s",
        tokenizer.vocab_size(),
        times.get(2).copied().unwrap_or_default() * 1e3,
        times.first().copied().unwrap_or_default() * 1e3,
        text.len() as f64 / 1e6 / encoding,
        ids.len() as f64 / 1e6 / encoding,
    );
    Ok(())
}

/// Texts of growing length, each the join of two earlier ones: (left, right).
fn joins(alphabet: &[String], count: usize) -> Vec<(String, String)> {
    let mut texts = alphabet.to_vec();
    let mut known: std::collections::HashSet<String> = texts.iter().cloned().collect();
    let mut joins = Vec::new();
    let mut random = menagerie_random::SplitMix64::new(1);
    while texts.len() < count {
        let mut pick = || {
            let at = random.below(texts.len());
            texts.get(at).cloned().unwrap_or_default()
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

fn file(values: Vec<(&str, OwnedValue)>) -> Result<GgufFile, Box<dyn Error>> {
    let mut writer = GgufWriter::new();
    for (key, value) in values {
        writer.metadata(key, value)?;
    }
    Ok(GgufFile::from_bytes("made up", writer.to_bytes()?)?)
}

fn byte_level(count: usize) -> Result<GgufFile, Box<dyn Error>> {
    let letters = (0x21..=0x7E).chain(0xA1..=0xAC).chain(0xAE..=0xFF).chain(0x100..=0x143);
    let alphabet: Vec<String> = letters.filter_map(char::from_u32).map(String::from).collect();
    let joins = joins(&alphabet, count);
    let tokens = alphabet.iter().cloned().chain(joins.iter().map(|(left, right)| format!("{left}{right}")));
    file(vec![
        ("tokenizer.ggml.model", OwnedValue::String("gpt2".into())),
        ("tokenizer.ggml.pre", OwnedValue::String("qwen2".into())),
        ("tokenizer.ggml.tokens", OwnedValue::Array(OwnedArray::strings(tokens))),
        ("tokenizer.ggml.token_type", OwnedValue::Array(OwnedArray::I32(vec![1; count]))),
        (
            "tokenizer.ggml.merges",
            OwnedValue::Array(OwnedArray::strings(
                joins.iter().map(|(left, right)| format!("{left} {right}")),
            )),
        ),
    ])
}

fn spm(count: usize) -> Result<GgufFile, Box<dyn Error>> {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    let mut types = vec![2, 3, 3];
    types.resize(tokens.len(), 6);
    let alphabet: Vec<String> =
        ('a'..='z').chain('A'..='Z').chain(['\u{2581}', '.', ',']).map(String::from).collect();
    let joins = joins(&alphabet, count - tokens.len());
    tokens.extend(alphabet.iter().cloned());
    tokens.extend(joins.iter().map(|(left, right)| format!("{left}{right}")));
    types.resize(tokens.len(), 1);
    let scores: Vec<f32> = (0..tokens.len()).map(|at| -(at as f32)).collect();
    file(vec![
        ("tokenizer.ggml.model", OwnedValue::String("llama".into())),
        ("tokenizer.ggml.tokens", OwnedValue::Array(OwnedArray::strings(&tokens))),
        ("tokenizer.ggml.scores", OwnedValue::Array(OwnedArray::F32(scores))),
        ("tokenizer.ggml.token_type", OwnedValue::Array(OwnedArray::I32(types))),
    ])
}
