//! The ids of references for small vocabularies of the kinds that no fixture model has (tests/fixtures/tok/vocabularies.json).

use gguf_file::{GgufFile, OpenOptions, OwnedValue};
use serde_json::Value;

use super::gguf::{Keys, fixture};
use crate::{Special, Tokenizer, TokenizerOptions};

fn cases() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("tok/vocabularies.json")).unwrap()).unwrap()
}

fn tokenizer(kind: &str) -> Tokenizer {
    let path = fixture(&format!("tok/{kind}/vocab.gguf"));
    let file = GgufFile::open(&path, &OpenOptions::default()).unwrap();
    Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn texts(cases: &Value) -> Vec<&str> {
    cases["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn ids_are_those_of_the_references() {
    let cases = cases();
    let kinds = cases["kinds"].as_object().unwrap();
    assert_eq!(kinds.len(), 5);
    for (kind, case) in kinds {
        let tokenizer = tokenizer(kind);
        for (at, text) in texts(&cases).into_iter().enumerate() {
            let got = tokenizer.encode(text, Special::Plain).unwrap();
            assert_eq!(got, ids(&case["ids"][at]), "{kind} {text:?}");
            if let Some(framed) = case.get("framed") {
                assert_eq!(tokenizer.frame(got), ids(&framed[at]), "{kind} {text:?}, framed");
            }
        }
    }
}

#[test]
fn text_comes_back_where_nothing_is_normalized() {
    let cases = cases();
    for kind in ["longest", "cheapest"] {
        let tokenizer = tokenizer(kind);
        for text in texts(&cases) {
            let ids = tokenizer.encode(text, Special::Plain).unwrap();
            let text = text.strip_prefix('\u{FEFF}').filter(|_| kind == "cheapest").unwrap_or(text);
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), text, "{kind}");
        }
    }
    for (kind, text, back) in [
        ("unigram", "  The  License ﬁ", "The License fi"),
        ("wordpiece", "The License  grants you", "the license grants you"),
    ] {
        let tokenizer = tokenizer(kind);
        let ids = tokenizer.encode(text, Special::Plain).unwrap();
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), back, "{kind} {ids:?}");
    }
}

/// `[CLS] a [SEP] b [SEP]` of BERT, `<s> a </s></s> b </s>` of XLM-RoBERTa.
#[test]
fn pairs_are_framed_as_rerankers_want_them() {
    let bert = tokenizer("wordpiece");
    let [cls, sep] = ["[CLS]", "[SEP]"].map(|text| bert.id_of(text).unwrap());
    assert_eq!(bert.frame_pair(vec![40], &[41, 42]), (vec![cls, 40, sep, 41, 42, sep], 3));
    let keys = Keys::default()
        .text("tokenizer.ggml.model", "t5")
        .strings("tokenizer.ggml.tokens", &["<s>", "<pad>", "</s>", "<unk>", "\u{2581}a"])
        .types(&[3, 3, 3, 2, 1])
        .with("tokenizer.ggml.bos_token_id", OwnedValue::U32(0))
        .with("tokenizer.ggml.eos_token_id", OwnedValue::U32(2))
        .with("tokenizer.ggml.seperator_token_id", OwnedValue::U32(2))
        .with("tokenizer.ggml.unknown_token_id", OwnedValue::U32(3))
        .with("tokenizer.ggml.add_bos_token", OwnedValue::Bool(true))
        .with("tokenizer.ggml.add_sep_token", OwnedValue::Bool(true));
    let xlm = keys.build(None).unwrap();
    assert_eq!(xlm.frame_pair(vec![4], &[4, 4]), (vec![0, 4, 2, 2, 4, 4, 2], 4));
    assert_eq!(xlm.frame(xlm.encode("a", Special::Plain).unwrap()), [0, 4, 2]);
}

#[test]
fn text_from_outside_makes_no_special_token() {
    for (kind, text) in [("wordpiece", "[CLS] a [SEP]"), ("unigram", "</s> a"), ("cheapest", "<|plamo:eos|>")]
    {
        let tokenizer = tokenizer(kind);
        let guarded: Vec<u32> =
            tokenizer.guarded_texts().into_iter().map(|text| tokenizer.id_of(text).unwrap()).collect();
        let special = |ids: Vec<u32>| ids.into_iter().filter(|id| guarded.contains(id)).count();
        let unknown = tokenizer.id_of("<unk>").or(tokenizer.id_of("[UNK]"));
        let plain = tokenizer.encode(text, Special::Plain).unwrap();
        let plain = plain.into_iter().filter(|id| Some(*id) != unknown).collect();
        assert_eq!(special(plain), 0, "{kind}");
        assert!(special(tokenizer.encode(text, Special::Parse).unwrap()) > 0, "{kind}");
    }
}

/// XVERSE's vocabulary: pairs of SentencePiece without scores, which llama.cpp takes as 0.
#[test]
fn no_scores_are_scores_of_0() {
    let keys = Keys::default()
        .text("tokenizer.ggml.model", "llama")
        .strings("tokenizer.ggml.tokens", &["<unk>", "<s>", "</s>", "\u{2581}", "a", "b", "ab", "ba"])
        .types(&[2, 3, 3, 1, 1, 1, 1, 1]);
    let without = keys.build(None).unwrap();
    let zero = keys.clone().scores(&[0.0; 8]).build(None).unwrap();
    for text in ["abab", "baab", "aba b"] {
        assert_eq!(without.encode(text, Special::Plain).unwrap(), zero.encode(text, Special::Plain).unwrap());
    }
    assert_eq!(without.encode("aba", Special::Plain).unwrap(), [3, 6, 4]);
}

#[test]
fn damaged_keys_are_named() {
    let good = Keys::default()
        .text("tokenizer.ggml.model", "t5")
        .strings("tokenizer.ggml.tokens", &["<pad>", "</s>", "<unk>", "a"]);
    let map = |bytes: Vec<u8>| good.clone().with("tokenizer.ggml.precompiled_charsmap", bytes.into());
    for (keys, part) in [
        (map(vec![1, 2]), "shorter than its length field"),
        (map(vec![8, 0, 0, 0, 1]), "declares a trie of 8 bytes, but 1 bytes follow"),
        (map(vec![4, 0, 0, 0, 1, 2, 3, 4, b'a']), "is not terminated"),
        (good.clone().strings("tokenizer.ggml.tokens", &["a"]), "unknown_token_id"),
        (good.clone().text("tokenizer.ggml.model", "plamo2"), "no token `<0x00>`"),
        (good.clone().text("tokenizer.ggml.model", "bert"), "unknown_token_id"),
    ] {
        let error = keys.build(None).unwrap_err().to_string();
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }
}
