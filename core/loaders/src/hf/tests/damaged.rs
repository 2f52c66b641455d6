//! Damaged and hostile folders give an error that names the place, in bounded time.

use std::time::Instant;

use serde_json::{Value, json};

use super::{built, fixture, folder};
use crate::{HfTexts, Special, TokenizerOptions};

fn whole(kind: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(kind).join("tokenizer.json")).unwrap()).unwrap()
}

/// The file after a change.
fn changed(kind: &str, change: impl FnOnce(&mut Value)) -> String {
    let mut file = whole(kind);
    change(&mut file);
    file.to_string()
}

fn said(text: &str) -> String {
    built(text).expect_err("this is damaged").to_string()
}

#[test]
fn what_is_not_done_is_refused_by_its_place() {
    let cases: [(&str, Value, &str); 16] = [
        ("normalizer", json!({"type": "Upper"}), "`normalizer` is a `Upper`"),
        (
            "normalizer",
            json!({"type": "Precompiled", "precompiled_charsmap": "AAAA!"}),
            "`normalizer`: `precompiled_charsmap` is not valid base64",
        ),
        (
            "normalizer",
            json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="}),
            "`precompiled_charsmap`: declares a trie",
        ),
        ("pre_tokenizer", json!({"type": "FixedLength", "length": 0}), "`length` is 0"),
        ("normalizer", json!({"type": "NFC", "fast": true}), "`normalizer` has the unknown field `fast`"),
        (
            "pre_tokenizer",
            json!({"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "Sudachi"}]}),
            "`pre_tokenizer.pretokenizers[1]` is a `Sudachi`",
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}+"}, "behavior": "Isolated", "invert": false}),
            "`pre_tokenizer.pattern` is the regex",
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed", "invert": false}),
            "`pre_tokenizer.pattern` is the regex",
        ),
        (
            "pre_tokenizer",
            json!({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "Doubled"}),
            "`behavior` `Doubled`",
        ),
        ("pre_tokenizer", json!({"type": "Split", "behavior": "Removed"}), "no `pattern`"),
        ("pre_tokenizer", json!({"pattern": 1}), "`pre_tokenizer`: it has no `type`"),
        (
            "post_processor",
            json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>"}}, {"Sequence": {"id": "A"}}], "pair": [], "special_tokens": {}}),
            "no ids for \"<x>\"",
        ),
        (
            "post_processor",
            json!({"type": "BertProcessing", "sep": ["[SEP]", 9999], "cls": ["[CLS]", 1]}),
            "the id 9999 is outside",
        ),
        ("decoder", json!({"type": "CTC"}), "`decoder` is a `CTC`"),
        ("version", json!("2.0"), "`version` is \"2.0\""),
        ("surprise", json!(1), "unknown field `surprise`"),
    ];
    for (field, value, expected) in cases {
        let said = said(&changed("tok/llama3", |file| file[field] = value));
        assert!(said.contains(expected), "{field}: {said}");
    }
}

#[test]
fn damaged_vocabularies_are_refused() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 11] = [
        (|file| file["model"]["type"] = json!("Lattice"), "`model` is a `Lattice`"),
        (|file| file["model"]["merges"][3] = json!(["no such", "token"]), "`model.merges[3]`"),
        (|file| file["model"]["merges"][3] = json!("one"), "does not consist of two parts"),
        (|file| file["model"]["merges"][3] = json!(["a", "b", "c"]), "a merge has two parts"),
        (|file| file["model"]["vocab"]["new"] = json!(7), "have the id 7"),
        (|file| file["model"]["vocab"]["new"] = json!(4_000_000_000u64), "most ids would be unused"),
        (|file| file["model"]["vocab"]["new"] = json!(-1), "invalid value"),
        (|file| file["model"]["unk_token"] = json!("<none>"), "`model.unk_token`"),
        (|file| file["model"]["dropout"] = json!(0.1), "`model.dropout`"),
        (|file| file["added_tokens"][1]["id"] = json!(2), "have the id 2"),
        (|file| file["model"]["byte_fallback"] = json!(true), "byte_fallback"),
    ];
    for (change, expected) in cases {
        let said = said(&changed("tok/llama3", change));
        assert!(said.contains(expected), "{expected}: {said}");
    }
    // The same text twice, which a parser into objects would hide.
    let text = changed("tok/llama3", |_| {}).replacen("\"vocab\":{", "\"vocab\":{\"Ġ\":9,", 1);
    assert!(said(&text).contains("model.vocab"), "{}", said(&text));
}

#[test]
fn ids_that_nothing_has_are_unused() {
    let text = changed("tok/llama3", |file| file["model"]["vocab"]["far"] = json!(400));
    let tokenizer = built(&text).unwrap();
    assert_eq!(tokenizer.vocab_size(), 401);
    assert_eq!(tokenizer.token_kind(390).unwrap(), crate::TokenKind::Unused);
    assert_eq!(tokenizer.id_of("far"), Some(400));
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for kind in ["tok/llama3", "tok/spm", "tok/wordpiece"] {
        let text = whole(kind).to_string();
        for cut in (0..text.len()).step_by(97).filter(|cut| text.is_char_boundary(*cut)) {
            let said = said(&text[..cut]);
            assert!(said.contains("line 1, column"), "{said}");
        }
    }
}

#[test]
fn long_strings_take_no_long_time() {
    let begun = Instant::now();
    let long = "ab".repeat(50 << 20);
    let text = changed("tok/llama3", |file| file["model"]["vocab"]["long"] = json!(380)).replacen(
        "\"long\"",
        &format!("\"{long}\""),
        1,
    );
    let tokenizer = built(&text).unwrap();
    assert_eq!(tokenizer.vocab_size(), 381);
    assert!(!tokenizer.encode("abab", Special::Parse).unwrap().contains(&380));
    assert!(begun.elapsed().as_secs() < 60);
}

#[test]
fn a_folder_says_what_it_lacks() {
    let said = |files: &[(&str, &str)]| {
        let made = folder(files);
        let texts = match HfTexts::open(made.path()) {
            Ok(texts) => texts,
            Err(error) => return error.to_string(),
        };
        texts.tokenizer(&TokenizerOptions::default()).expect_err("no tokenizer").to_string()
    };
    assert!(said(&[("config.json", "{}")]).contains("no tokenizer.json and no tokenizer.model"));
    assert!(said(&[("tekken.json", "{}")]).contains("missing field `config`"));
    assert!(said(&[("tokenizer.json/inner", "")]).contains("not a regular file"));
    assert!(said(&[("tokenizer_config.json", "{")]).contains("tokenizer_config.json"));
    assert!(said(&[("tokenizer_config.json", r#"{"bos_token": 3}"#)]).contains("`bos_token`"));
    assert!(said(&[("config.json", r#"{"eos_token_id": "x"}"#)]).contains("`eos_token_id`"));
    assert!(said(&[("tokenizer.model", "\u{8}\u{8}\u{8}")]).contains("tokenizer.model"));
    assert!(said(&[("chat_template.json", r#"{"chat_template": 5}"#)]).contains("`chat_template`"));
}
