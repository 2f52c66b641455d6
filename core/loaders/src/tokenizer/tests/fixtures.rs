//! The ids of llama.cpp and sentencepiece for the fixtures' tokenizers (tests/fixtures/tok/cases.json).

use serde_json::Value;

use super::gguf::{fixture, fixture_tokenizer};
use super::long_texts::own_pages;
use crate::{Special, Tokenizer};

fn cases() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("tok/cases.json")).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn ids_are_llama_cpps() {
    let cases = cases();
    let texts: Vec<&str> =
        cases["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(texts.len(), 30);
    for (kind, case) in cases["kinds"].as_object().unwrap() {
        let tokenizer = fixture_tokenizer(case["model"].as_str().unwrap());
        for (at, text) in texts.iter().enumerate() {
            // llama.cpp was run with special tokens parsed.
            let got = tokenizer.encode(text, Special::Parse).unwrap();
            assert_eq!(got, ids(&case["llamacpp_plain"][at]), "{kind} {text:?}");
            let mut framed = ids(&case["llamacpp_special"][at]);
            if text.is_empty() {
                // The runner skipped the empty text.
                framed.extend(tokenizer.bos().filter(|_| tokenizer.adds_bos()));
            }
            let doubled = framed.len() > 1 && framed[0] == framed[1] && Some(framed[0]) == tokenizer.bos();
            let expected = if doubled { &framed[1..] } else { &framed };
            assert_eq!(tokenizer.frame(got), expected, "{kind} {text:?}, framed");
        }
    }
}

#[test]
fn spm_ids_are_sentencepieces() {
    let cases = cases();
    let case = &cases["kinds"]["spm"];
    let tokenizer = fixture_tokenizer("base/mixtral");
    for (at, text) in cases["texts"].as_array().unwrap().iter().enumerate() {
        // sentencepiece takes no special tokens from text: the plain way here.
        let got = tokenizer.encode(text.as_str().unwrap(), Special::Plain).unwrap();
        assert_eq!(got, ids(&case["sentencepiece_plain"][at]), "{text:?}");
    }
}

#[test]
fn text_comes_back() {
    let cases = cases();
    for (kind, case) in cases["kinds"].as_object().unwrap() {
        let tokenizer = fixture_tokenizer(case["model"].as_str().unwrap());
        for text in cases["texts"].as_array().unwrap() {
            let text = text.as_str().unwrap();
            let ids = tokenizer.encode(text, Special::Plain).unwrap();
            assert_eq!(tokenizer.decode(&ids, false).unwrap(), text, "{kind} {ids:?}");
        }
    }
}

#[test]
fn a_long_text_comes_back() {
    let pages = own_pages();
    for model in ["base/llama", "base/phi2", "base/qwen2", "base/mixtral", "base/starcoder2"] {
        let tokenizer = fixture_tokenizer(model);
        let ids = tokenizer.encode(&pages, Special::Plain).unwrap();
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), pages, "{model}");
    }
}

#[test]
fn ends_are_found() {
    // <unk> <s> </s> <|im_start|> <|im_end|> are 0 to 4 in the fixtures' byte-level vocabularies.
    let tokenizer = fixture_tokenizer("base/qwen2");
    assert_eq!((tokenizer.id_of("</s>"), tokenizer.id_of("<|im_end|>")), (Some(2), Some(4)));
    assert!(tokenizer.end_of_generation().contains(&2) && tokenizer.end_of_generation().contains(&4));
    let more = tokenizer.clone().with_end_tokens(&["<|im_start|>", "not there"]);
    let ends = |tokenizer: &Tokenizer, id: u32| tokenizer.end_of_generation().binary_search(&id).is_ok();
    assert!(ends(&more, 3) && ends(&more, 2) && !ends(&tokenizer, 3));
}
