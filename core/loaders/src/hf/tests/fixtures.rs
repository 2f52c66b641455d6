//! The ids of transformers for the fixtures' folders (tests/fixtures/tok/cases.json).

use serde_json::Value;

use super::fixture;
use crate::{HfTexts, Special, Tokenizer, TokenizerOptions};

fn open(folder: &str) -> Tokenizer {
    HfTexts::open(fixture(folder)).unwrap().tokenizer(&TokenizerOptions::default()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn cases() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("tok/cases.json")).unwrap()).unwrap()
}

#[test]
fn ids_and_texts_are_those_of_transformers() {
    let cases = cases();
    let mut compared = 0;
    for (kind, case) in cases["kinds"].as_object().unwrap() {
        for folder in [format!("tok/{kind}"), format!("{}/hf", case["model"].as_str().unwrap())] {
            let tokenizer = open(&folder);
            for (at, text) in cases["texts"].as_array().unwrap().iter().enumerate() {
                let text = text.as_str().unwrap();
                let got = tokenizer.encode(text, Special::Parse).unwrap();
                assert_eq!(got, ids(&case["hf_plain"][at]), "{folder} {text:?}");
                let decoded = tokenizer.decode(&got, true).unwrap();
                assert_eq!(decoded, case["hf_decoded"][at].as_str().unwrap(), "{folder} {got:?}");
                // transformers adds the special tokens again to a text that already begins with them; this crate does
                // not.
                let framed = ids(&case["hf_special"][at]);
                let twice = framed.len() > 1 && framed[0] == framed[1] && Some(framed[0]) == tokenizer.bos();
                let expected = if twice { &framed[1..] } else { &framed };
                assert_eq!(tokenizer.frame(got), expected, "{folder} {text:?}, framed");
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 4 * 2 * 30);
}

#[test]
fn plain_texts_never_become_special_tokens() {
    let tokenizer = open("base/qwen2/hf");
    let control = tokenizer.id_of("<|im_start|>").unwrap();
    let text = "<|im_start|>user\nhi<|im_end|>";
    assert!(tokenizer.encode(text, Special::Parse).unwrap().contains(&control));
    let plain = tokenizer.encode(text, Special::Plain).unwrap();
    assert!(!plain.contains(&control));
    assert_eq!(tokenizer.decode(&plain, false).unwrap(), text);
}

#[test]
fn special_tokens_are_found() {
    for model in ["llama", "mistral3", "mixtral", "phi2", "phi3", "qwen2", "qwen3", "qwen3moe", "starcoder2"]
    {
        let tokenizer = open(&format!("base/{model}/hf"));
        let (bos, eos) = (tokenizer.id_of("<s>"), tokenizer.id_of("</s>"));
        assert!(bos.is_some() && eos.is_some(), "{model}");
        assert_eq!((tokenizer.bos(), tokenizer.eos()), (bos, eos), "{model}");
        assert!(tokenizer.end_of_generation().contains(&eos.unwrap()), "{model}");
        let adds = ["llama", "mistral3", "mixtral", "phi3"].contains(&model);
        assert_eq!(tokenizer.adds_bos(), adds, "{model}");
    }
}
