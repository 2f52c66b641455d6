//! Byte pair encoding against the tokenizers crate.

use std::sync::LazyLock;

use gguf_file::{GgufFile, OpenOptions};
use proptest::prelude::*;
use tokenizers::Model;
use tokenizers::models::bpe::{BPE, BpeBuilder};

use super::gguf::{Keys, fixture};
use super::long_texts::own_pages;
use crate::tables::TokenizerTables;
use crate::tokenizer::budget::Budget;
use crate::tokenizer::byte_letters::to_letters;
use crate::tokenizer::splitter::Splitter;
use crate::{Special, Tokenizer};

struct Pair {
    ours: Tokenizer,
    theirs: BPE,
    splitter: Splitter,
}

impl Pair {
    fn new(tokens: &[String], merges: &[String], pre: &str) -> Self {
        let keys = Keys::default()
            .text("tokenizer.ggml.model", "gpt2")
            .text("tokenizer.ggml.pre", pre)
            .strings("tokenizer.ggml.tokens", tokens)
            .strings("tokenizer.ggml.merges", merges)
            .with("tokenizer.ggml.add_bos_token", gguf_file::OwnedValue::Bool(false));
        let tables = TokenizerTables::built_in().unwrap();
        let entry = tables.pre(pre).unwrap();
        let vocab = (0u32..)
            .zip(tokens)
            .map(|(id, text)| (text.clone(), id))
            .collect::<tokenizers::models::bpe::Vocab>();
        let merges = merges.iter().map(|merge| merge.split_once(' ').unwrap());
        let merges = merges.map(|(left, right)| (left.to_owned(), right.to_owned())).collect();
        Self {
            ours: keys.build(None).unwrap(),
            theirs: BpeBuilder::new()
                .vocab_and_merges(vocab, merges)
                .ignore_merges(entry.ignore_merges)
                .build()
                .unwrap(),
            splitter: Splitter::new(&entry.regexes).unwrap(),
        }
    }

    fn check(&self, text: &str) {
        let pieces = self.splitter.split(text, &Budget::of(text)).unwrap();
        let expected: Vec<u32> = pieces
            .iter()
            .flat_map(|piece| self.theirs.tokenize(&to_letters(piece)).unwrap())
            .map(|token| token.id)
            .collect();
        assert_eq!(self.ours.encode(text, Special::Plain).unwrap(), expected, "{text:?}");
    }
}

/// A vocabulary with many merges that compete, in an order that is not that of their lengths.
fn knotty(pre: &str) -> Pair {
    let mut tokens: Vec<String> =
        (0..=255u8).map(|byte| crate::tokenizer::byte_letters::letter(byte).into()).collect();
    let mut merges = Vec::new();
    let pieces =
        ["aa", "ab", "ba", "aaa", "aab", "aba", "abab", "aaaa", "Ġa", "Ġb", "Ġaa", "ĠĠ", "ĠĠĠ", "bb", "abb"];
    for piece in pieces {
        tokens.push(piece.to_owned());
    }
    for (at, piece) in pieces.iter().enumerate() {
        for (cut, _) in piece.char_indices().skip(1) {
            let (left, right) = piece.split_at(cut);
            if tokens.iter().any(|token| token == left) && tokens.iter().any(|token| token == right) {
                merges.push(((at * 7 + cut * 5) % 11, format!("{left} {right}")));
            }
        }
    }
    merges.sort();
    let merges: Vec<String> = merges.into_iter().map(|(_, merge)| merge).collect();
    Pair::new(&tokens, &merges, pre)
}

fn trained(model: &str, pre: &str) -> Pair {
    let file = GgufFile::open(fixture(&format!("{model}/model-f32.gguf")), &OpenOptions::default()).unwrap();
    let list = |key: &str| -> Vec<String> {
        let list = file.metadata().get(key).unwrap().as_array().unwrap();
        list.strings().unwrap().map(str::to_owned).collect()
    };
    // All tokens normal here, so that both sides know the same ones; special names are then plain text.
    let special = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"];
    let tokens: Vec<String> = list("tokenizer.ggml.tokens")
        .into_iter()
        .map(|token| if special.contains(&token.as_str()) { format!("{token} ") } else { token })
        .collect();
    Pair::new(&tokens, &list("tokenizer.ggml.merges"), pre)
}

#[test]
fn a_text_is_encoded_alike() {
    let pages = own_pages();
    for (model, pre) in [("base/llama", "llama-bpe"), ("base/phi2", "gpt-2"), ("base/qwen2", "qwen2")] {
        trained(model, pre).check(&pages);
    }
    let pair = knotty("gpt-2");
    for count in 0..50 {
        for unit in ["a", "ab", " ", "aab", " a"] {
            pair.check(&unit.repeat(count));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn knotty_texts_are_encoded_alike(text in "[ab ]{0,40}|(aa|ab|ba|b|  | a|é){0,25}") {
        static PAIRS: LazyLock<[Pair; 2]> = LazyLock::new(|| [knotty("gpt-2"), knotty("llama-bpe")]);
        for pair in PAIRS.iter() {
            pair.check(&text);
        }
    }
}
