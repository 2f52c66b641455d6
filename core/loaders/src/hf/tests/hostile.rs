//! Small tokenizers with excessive costs: a named error before memory or time is used.

use std::time::Duration;

use serde_json::{Value, json};

use super::{built, fixture};
use crate::segment::Segment;
use crate::tables::TokenizerTables;
use crate::tokenizer::json::file::AddedToken;
use crate::tokenizer::json::{self, Settings};
use crate::tokenizer::tests::long_texts::cpu_time;
use crate::{Special, Tokenizer, TokenizerError};

/// The limit for each of these; without a budget they take seconds to hours, and gigabytes.
const LIMIT: Duration = Duration::from_secs(2);

fn whole() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("tok/llama3/tokenizer.json")).unwrap()).unwrap()
}

/// A tokenizer with one changed stage.
fn with(field: &str, value: Value) -> Result<Tokenizer, TokenizerError> {
    let mut file = whole();
    file[field] = value;
    built(&file.to_string())
}

/// The error of encoding; it must come quickly.
fn said(tokenizer: Result<Tokenizer, TokenizerError>, text: &str) -> String {
    let start = cpu_time();
    let said = tokenizer.and_then(|tokenizer| tokenizer.encode(text, Special::Plain)).unwrap_err();
    let took = cpu_time() - start;
    assert!(took < LIMIT, "{took:?}: {said}");
    said.to_string()
}

fn sequence(field: &str, step: &Value, count: usize) -> Value {
    json!({ "type": "Sequence", field: vec![step.clone(); count] })
}

#[test]
fn normalizers_make_no_more_of_a_text_than_its_budget() {
    let replace = |pattern: Value, by: String| json!({"type": "Replace", "pattern": pattern, "content": by});
    let text = replace(json!({"String": "a"}), "a".repeat(1000));
    let regex = replace(json!({"Regex": "[a-z]"}), "a".repeat(1000));
    let prepend = json!({"type": "Prepend", "prepend": "b".repeat(100_000)});
    let cases = [(text, 3, 2), (regex, 3, 2), (prepend, 50, 10), (json!({"type": "ByteLevel"}), 60, 19)];
    for (step, count, place) in cases {
        let said = said(with("normalizer", sequence("normalizers", &step, count)), "aé");
        let expected =
            format!("`normalizer.normalizers[{place}]` adds more than 1048768 bytes to a text of 3");
        assert!(said.contains(&expected), "{said}");
    }
    // A character table with one long text as the replacement of "a".
    let by = "b".repeat(600_000);
    let mut nodes = vec![0u32; 1024];
    nodes[0] = 1 << 10 | 1 << 9;
    nodes[256 ^ 97] = 2 << 10 | 1 << 9 | 1 << 8 | 97;
    nodes[256 ^ 97 ^ 512] = 1 << 31;
    let mut map = (4 * nodes.len() as u32).to_le_bytes().to_vec();
    map.extend(nodes.iter().flat_map(|node| node.to_le_bytes()));
    map.extend(by.bytes().chain([0]));
    let map = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, map);
    let tokenizer = with("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": map}));
    let tokenizer = tokenizer.unwrap();
    assert!(tokenizer.encode("a", Special::Plain).is_ok_and(|ids| ids.len() > 100));
    assert!(said(Ok(tokenizer), "aa").contains("`normalizer` adds more than"));
}

/// All parts of a text and all added tokens share one budget.
#[test]
fn parts_of_a_text_and_added_tokens_share_their_budget() {
    let mut file = whole();
    let by = "b".repeat(10_000);
    file["normalizer"] = json!({"type": "Replace", "pattern": {"String": "a"}, "content": by});
    let token = file["added_tokens"][0]["content"].as_str().unwrap().to_owned();
    let tokenizer = built(&file.to_string()).unwrap();
    let start = cpu_time();
    let said = tokenizer.encode(&format!("{token}a").repeat(200), Special::Parse).unwrap_err().to_string();
    assert!(cpu_time() - start < LIMIT && said.contains("`normalizer` adds more than"), "{said}");
    let size = file["model"]["vocab"].as_object().unwrap().len() + 300;
    for at in 0..1000 {
        file["added_tokens"].as_array_mut().unwrap().push(json!({
            "id": size + at, "content": format!("<{at}a>"), "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": true, "special": false,
        }));
    }
    assert!(built(&file.to_string()).unwrap_err().to_string().contains("`normalizer` adds more than"));
}

#[test]
fn pre_tokenizers_make_no_more_of_a_text_than_its_budget() {
    let letters = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
    let told = said(with("pre_tokenizer", sequence("pretokenizers", &letters, 60)), "é");
    assert!(told.contains("`pre_tokenizer` adds more than 1048704 bytes to a text of 2"), "{told}");
    let mut steps = Vec::new();
    for at in 0..40 {
        let by = ["x", "y"][at % 2];
        steps.push(
            json!({"type": "Metaspace", "replacement": by, "prepend_scheme": "always", "split": false}),
        );
        steps.push(json!({"type": "FixedLength", "length": 1}));
    }
    let told = said(with("pre_tokenizer", json!({"type": "Sequence", "pretokenizers": steps})), "a");
    assert!(told.contains("`pre_tokenizer` adds more than"), "{told}");
}

#[test]
fn steps_and_regexes_of_a_file_are_few() {
    let digits = json!({"type": "Digits", "individual_digits": false});
    let told = said(with("pre_tokenizer", sequence("pretokenizers", &digits, 300)), "a");
    assert!(told.contains("`pre_tokenizer.pretokenizers[256]` follows 256 other steps"), "{told}");
    let told = said(with("normalizer", sequence("normalizers", &json!({"type": "NFC"}), 300)), "a");
    assert!(told.contains("`normalizer.normalizers[256]` follows 256 other steps"), "{told}");
    // Each takes megabytes after compilation.
    for behavior in ["Isolated", "Removed"] {
        let split =
            json!({"type": "Split", "pattern": {"Regex": r"\w{100}"}, "behavior": behavior, "invert": false});
        let told = said(with("pre_tokenizer", sequence("pretokenizers", &split, 200)), "a");
        assert!(told.contains("limit for all regexes"), "{told}");
        assert!(with("pre_tokenizer", sequence("pretokenizers", &split, 3)).is_ok());
    }
    let replace = json!({"type": "Replace", "pattern": {"Regex": r"\w{100}"}, "content": ""});
    assert!(
        said(with("normalizer", sequence("normalizers", &replace, 200)), "a")
            .contains("limit for all regexes")
    );
}

#[test]
fn a_template_names_few_tokens() {
    let special = json!({"SpecialToken": {"id": "x", "type_id": 0}});
    let sequence = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let mut single = vec![special; 2000];
    single.push(sequence("A"));
    let mut pair = single.clone();
    pair.push(sequence("B"));
    let template = json!({
        "type": "TemplateProcessing", "single": single, "pair": pair,
        "special_tokens": {"x": {"id": "x", "ids": vec![1; 20_000], "tokens": ["x"]}},
    });
    let told = said(with("post_processor", template), "a");
    assert!(told.contains("`post_processor.single[0]` adds more than 256 tokens around a text"), "{told}");
}

/// Tokens that strip the white space around them, in text that consists of such white-space tokens.
#[test]
fn white_space_around_added_tokens_takes_no_quadratic_time() {
    for (lstrip, rstrip) in [(true, false), (false, true)] {
        let mut file = whole();
        let id = file["model"]["vocab"].as_object().unwrap().len() + 300;
        file["added_tokens"].as_array_mut().unwrap().push(json!({
            "id": id, "content": " ", "single_word": false, "lstrip": lstrip, "rstrip": rstrip, "normalized": false,
            "special": false,
        }));
        let tokenizer = built(&file.to_string()).unwrap();
        let start = cpu_time();
        let ids = tokenizer.encode(&" ".repeat(1 << 20), Special::Plain).unwrap();
        assert!(cpu_time() - start < LIMIT && ids.len() == 1 << 20, "{:?}", cpu_time() - start);
    }
}

#[test]
fn tokens_named_by_other_files_take_no_quadratic_time() {
    let count = 40_000;
    let texts: Vec<String> = (0..count).map(|at| format!("token {at:050}")).collect();
    let vocab: serde_json::Map<String, Value> =
        texts.iter().enumerate().map(|(id, text)| (text.clone(), json!(id))).collect();
    let model = json!({"type": "WordLevel", "vocab": vocab, "unk_token": texts[0]});
    let file = json::read(&json!({"version": "1.0", "model": model}).to_string()).unwrap();
    let added = |id: usize| AddedToken {
        id: id as u64,
        content: texts[id].clone(),
        single_word: false,
        lstrip: false,
        rstrip: false,
        normalized: false,
        special: true,
    };
    let settings = Settings {
        added: (0..count / 2).map(added).collect(),
        special: texts[count / 2..].to_vec(),
        ..Settings::default()
    };
    let start = cpu_time();
    let tokenizer = json::build(file, &settings, TokenizerTables::built_in().unwrap()).unwrap();
    assert!(cpu_time() - start < LIMIT, "{:?}", cpu_time() - start);
    assert_eq!(tokenizer.guarded_texts().len(), count);
}

/// A long conversation of many messages is not hostile: each border of trust is found by normalizing the text before
/// it.
#[test]
fn a_long_conversation_stays_within_its_budget() {
    let mut file = whole();
    file["normalizer"] = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let id = file["model"]["vocab"].as_object().unwrap().len() + 300;
    file["added_tokens"].as_array_mut().unwrap().push(json!({
        "id": id, "content": "<|turn|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true,
        "special": true,
    }));
    let tokenizer = built(&file.to_string()).unwrap();
    let turns = (0..1000).flat_map(|_| {
        [
            Segment { text: "<|turn|>".into(), trusted: true },
            Segment { text: "a b <|turn|> ".into(), trusted: false },
        ]
    });
    let ids = tokenizer.encode_segments(&turns.collect::<Vec<_>>()).unwrap();
    assert_eq!(ids.iter().filter(|found| **found == id as u32).count(), 1000);
}
