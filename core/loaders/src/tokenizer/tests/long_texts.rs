//! A megabyte of one thing is encoded in no time, whatever the vocabulary.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::gguf::Keys;
use crate::{Special, Tokenizer};

/// How long a megabyte may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// Time that this thread has computed, so that a busy machine fails no test; time that has passed where the system
/// does not say.
pub(crate) fn cpu_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = counted.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// A long text with much markup, code and white space: pages of this project.
pub(crate) fn own_pages() -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let pages = [
        "core/ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "specs/README.md",
        "core/loaders/src/template/operations.rs",
        "core/loaders/tests/templates/README.md",
        "core/loaders/tests/templates/expected.json",
    ];
    let text: String = pages.map(|page| std::fs::read_to_string(format!("{root}{page}")).unwrap()).concat();
    assert!(text.len() > 100_000);
    text
}

/// Runs of white space, of letters and of digits that are tokens, as Gemma's and phi-2's vocabularies have them.
fn runs(longest: usize, space: &str) -> Vec<String> {
    let lengths = (2..=longest).chain([64, 128]);
    lengths.flat_map(|length| [space, "\n", "\t", "a", "1"].map(|part| part.repeat(length))).collect()
}

/// A vocabulary of single characters and runs, the runs of this kind.
fn keys(model: &str, pre: Option<&str>, space: &str, kind: i32) -> Keys {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    let mut types = vec![2, 3, 3];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    types.resize(tokens.len(), 6);
    let letters = (0..=255u8).map(crate::tokenizer::byte_letters::letter);
    let single = letters.chain(['\u{2581}', ' ', '\n', '\t']).map(String::from);
    for token in single.chain(runs(31, space)) {
        if !tokens.contains(&token) {
            types.push(if token.chars().count() > 1 { kind } else { 1 });
            tokens.push(token);
        }
    }
    // Merges double runs of a letter.
    let merges = ["a a", "aa aa", "aaaa aaaa", "1 1", "11 11"];
    let scores: Vec<f32> = (0..tokens.len()).map(|at| at as f32).collect();
    let keys = Keys::default()
        .text("tokenizer.ggml.model", model)
        .strings("tokenizer.ggml.tokens", &tokens)
        .strings("tokenizer.ggml.merges", &merges)
        .scores(&scores)
        .types(&types);
    match pre {
        Some(pre) => keys.text("tokenizer.ggml.pre", pre),
        None => keys,
    }
}

fn check(name: &str, tokenizer: &Tokenizer) {
    for part in [" ", "\n", "1", "a"] {
        let text = part.repeat((1 << 20) / part.len());
        let start = cpu_time();
        let ids = tokenizer
            .encode(&text, Special::Parse)
            .unwrap_or_else(|error| panic!("{name} {part:?}: {error}"));
        let took = cpu_time() - start;
        assert!(took < LIMIT, "{name} {part:?}: {took:?} for {} tokens", ids.len());
        // A space at the start of a text is taken for the one that encoding puts there, as llama.cpp does.
        let decoded = tokenizer.decode(&ids, false).unwrap();
        assert!(text.len() - decoded.len() <= 1 && text.ends_with(&decoded), "{name} {part:?}");
    }
}

#[test]
fn by_scores() {
    check("spm", &keys("llama", None, "\u{2581}", 1).build(None).unwrap());
    // User-defined tokens hold spaces as they are.
    check("spm, user-defined runs", &keys("llama", None, " ", 4).build(None).unwrap());
}

#[test]
fn by_merges_of_text() {
    check("text", &keys("gemma4", None, "\u{2581}", 1).build(None).unwrap());
    check("text, user-defined runs", &keys("gemma4", None, " ", 4).build(None).unwrap());
}

/// The pre-tokenizers' own tests go through all of them.
#[test]
fn by_merges_of_letters() {
    for (pre, kind) in [("gpt-2", 4), ("llama-bpe", 1), ("smollm", 1)] {
        let tokenizer = keys("gpt2", Some(pre), " ", kind).build(None).unwrap();
        check(&format!("{pre}, runs of kind {kind}"), &tokenizer);
    }
}
