//! Byte-level vocabularies in the order of their ranks, compared with mistral-common and tiktoken
//! (tests/fixtures/tok/ranked.json).

use serde_json::{Value, json};

use super::{fixture, folder};
use crate::{HfTexts, Special, Tokenizer, TokenizerOptions, TokenizerTables};

fn open(name: &str) -> Tokenizer {
    HfTexts::open(fixture(name)).unwrap().tokenizer(&TokenizerOptions::default()).unwrap()
}

fn cases() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("tok/ranked.json")).unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn ids_are_those_of_mistral_common_and_tiktoken() {
    let cases = cases();
    let (tekken, tiktoken) = (open("tok/tekken"), open("tok/tiktoken"));
    let texts = cases["texts"].as_array().unwrap();
    assert_eq!(texts.len(), 49);
    for (at, text) in texts.iter().enumerate() {
        let text = text.as_str().unwrap();
        let plain = tekken.encode(text, Special::Plain).unwrap();
        assert_eq!(plain, ids(&cases["tekken"][at]), "tekken {text:?}");
        assert_eq!(tekken.decode(&plain, true).unwrap(), text);
        assert_eq!(tekken.frame(plain), ids(&cases["tekken_framed"][at]), "tekken {text:?}, framed");
        let plain = tiktoken.encode(text, Special::Plain).unwrap();
        assert_eq!(plain, ids(&cases["tiktoken"][at]), "tiktoken {text:?}");
        let special = tiktoken.encode(text, Special::Parse).unwrap();
        assert_eq!(special, ids(&cases["tiktoken_special"][at]), "tiktoken {text:?}, special");
    }
}

#[test]
fn special_tokens_are_those_of_the_file_or_the_tables() {
    let tekken = open("tok/tekken");
    assert_eq!((tekken.bos(), tekken.eos(), tekken.adds_bos()), (Some(1), Some(2), true));
    assert_eq!(tekken.id_of("[INST]"), Some(3));
    assert_eq!(tekken.token_text(22).unwrap(), "<SPECIAL_22>");
    assert_eq!(tekken.encode("[INST]", Special::Parse).unwrap(), [3]);
    assert_ne!(tekken.encode("[INST]", Special::Plain).unwrap(), [3]);
    let tiktoken = open("tok/tiktoken");
    assert_eq!(tiktoken.id_of("<|extra_204|>"), Some(701 + 3 + 204));
    assert_eq!(tiktoken.vocab_size(), 701 + 208);
    let mut file: Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("tok/tekken/tekken.json")).unwrap()).unwrap();
    file["special_tokens"] = json!([{"rank": 0, "token_str": "<unk>", "is_control": true}, {"rank": 1, "token_str": "<s>", "is_control": true},
                                    {"rank": 5, "token_str": "[NEW]", "is_control": true}]);
    let folder = folder(&[("tekken.json", &file.to_string())]);
    let tekken = HfTexts::open(folder.path()).unwrap().tokenizer(&TokenizerOptions::default()).unwrap();
    assert_eq!((tekken.id_of("[NEW]"), tekken.id_of("[INST]")), (Some(5), None));
}

#[test]
fn a_file_of_gguf_says_the_same() {
    let tables = TokenizerTables::built_in().unwrap();
    let cases = cases();
    let folder = HfTexts::open(fixture("tok/tekken")).unwrap();
    let keys = folder.gguf_keys(0, None, &tables).unwrap().keys;
    let mut writer = gguf_file::GgufWriter::new();
    for (key, value) in keys {
        writer.metadata(&key, value).unwrap();
    }
    let file = gguf_file::GgufFile::from_bytes("tekken", writer.to_bytes().unwrap()).unwrap();
    let tokenizer = Tokenizer::from_gguf(file.metadata(), &TokenizerOptions::default()).unwrap();
    assert_eq!(tokenizer.pre(), Some("tekken"));
    for (at, text) in cases["texts"].as_array().unwrap().iter().enumerate() {
        let text = text.as_str().unwrap();
        let got = tokenizer.encode(text, Special::Plain).unwrap();
        assert_eq!(got, ids(&cases["tekken"][at]), "{text:?}");
        assert_eq!(tokenizer.frame(got), ids(&cases["tekken_framed"][at]), "{text:?}");
    }
    // A token that no merges produce is used only with `ignore_merges`, which `qwen2` does not have.
    let folder = HfTexts::open(fixture("tok/tiktoken")).unwrap();
    let error = folder.gguf_keys(0, None, &tables).unwrap_err().to_string();
    assert!(error.contains("have no name"), "{error}");
}

#[test]
fn damage_and_unknown_classes_are_refused() {
    let tekken = std::fs::read_to_string(fixture("tok/tekken/tekken.json")).unwrap();
    let tiktoken = std::fs::read_to_string(fixture("tok/tiktoken/vocab.tiktoken")).unwrap();
    let class = r#"{"tokenizer_class": "QWenTokenizer"}"#;
    let cases: [(&[(&str, &str)], &str); 9] = [
        (&[("tekken.json", &tekken[..tekken.len() / 2])], "EOF while parsing"),
        (&[("tekken.json", &tekken.replacen("\"rank\":3,", "\"rank\":4,", 1))], "`vocab[3]`"),
        (&[("tekken.json", &tekken.replacen("\"AA==\"", "\"AA\"", 1))], "`vocab[0]`"),
        (&[("tekken.json", &tekken.replacen(":724,", ":20000,", 1))], "`config` says 19976"),
        (&[("tekken.json", &tekken.replacen(":24,", ":725,", 1))], "725 special tokens of 724"),
        (&[("a.tiktoken", &tiktoken)], "no `tokenizer_class`"),
        (
            &[("a.tiktoken", &tiktoken), ("tokenizer_config.json", r#"{"tokenizer_class": "Other"}"#)],
            "class Other",
        ),
        (
            &[("a.tiktoken", &tiktoken.replacen(" 7\n", " 8\n", 1)), ("tokenizer_config.json", class)],
            "line 8: expected bytes in base64 and the rank 7",
        ),
        (
            &[
                ("a.tiktoken", &tiktoken[..tiktoken.match_indices('\n').nth(20).unwrap().0]),
                ("tokenizer_config.json", class),
            ],
            "has no token",
        ),
    ];
    for (files, expected) in cases {
        let folder = folder(files);
        let texts = HfTexts::open(folder.path()).unwrap();
        let said = texts.tokenizer(&TokenizerOptions::default()).expect_err(expected).to_string();
        assert!(said.contains(expected), "{expected}: {said}");
    }
}
