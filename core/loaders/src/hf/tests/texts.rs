//! Templates, sampling settings and special tokens of folders, and sentencepiece vocabularies.

use super::{fixture, folder};
use crate::{HfTexts, Special, TokenizerOptions};

const TEMPLATE: &str = "{% for message in messages %}{{ message.content }}{% endfor %}";

fn json(value: serde_json::Value) -> String {
    value.to_string()
}

fn copied(kind: &str, more: &[(&str, &str)]) -> super::Folder {
    let made = folder(more);
    std::fs::create_dir_all(made.path()).unwrap();
    for file in std::fs::read_dir(fixture(kind)).unwrap() {
        let file = file.unwrap();
        let to = made.path().join(file.file_name());
        if !to.exists() {
            std::fs::copy(file.path(), to).unwrap();
        }
    }
    made
}

#[test]
fn templates_are_found_where_they_are() {
    let named = json(serde_json::json!({"chat_template": [
        {"name": "rag", "template": "b"}, {"name": "default", "template": TEMPLATE}]}));
    let text = json(serde_json::json!({"chat_template": TEMPLATE}));
    type Files<'f> = &'f [(&'f str, &'f str)];
    let cases: [(Files, &[&str]); 5] = [
        (&[("tokenizer_config.json", &text)], &["default"]),
        (&[("tokenizer_config.json", &named)], &["default", "rag"]),
        (&[("chat_template.json", &text)], &["default"]),
        (
            &[("chat_template.jinja", TEMPLATE), ("additional_chat_templates/rag.jinja", "b")],
            &["default", "rag"],
        ),
        (&[("config.json", "{}")], &[]),
    ];
    for (files, names) in cases {
        let made = folder(files);
        let texts = HfTexts::open(made.path()).unwrap();
        assert_eq!(texts.chat_template_names(), names, "{files:?}");
        assert_eq!(texts.chat_template_source("default"), names.first().map(|_| TEMPLATE), "{files:?}");
        assert_eq!(texts.paths().len(), files.len(), "{files:?}");
    }
    // A separate file takes precedence.
    let made = folder(&[("tokenizer_config.json", &text), ("chat_template.jinja", "own")]);
    assert_eq!(HfTexts::open(made.path()).unwrap().chat_template_source("default"), Some("own"));
}

#[test]
fn a_template_knows_the_special_tokens() {
    let source =
        "{{ bos_token }}{% for message in messages %}{{ message.content }}{{ eos_token }}{% endfor %}";
    let made = copied("tok/llama3", &[("chat_template.jinja", source)]);
    let texts = HfTexts::open(made.path()).unwrap();
    let tokenizer = texts.tokenizer(&TokenizerOptions::default()).unwrap();
    let template = texts.chat_template(&tokenizer).unwrap().unwrap();
    let messages = serde_json::json!([{"role": "user", "content": "hi"}]);
    let said = template.render(messages.as_array().unwrap(), &crate::RenderOptions::default()).unwrap();
    assert_eq!(said, "<s>hi</s>");
}

#[test]
fn sampling_is_what_generation_config_says() {
    let text =
        r#"{"temperature": 0.6, "top_k": 20, "top_p": 0.95, "repetition_penalty": 1.05, "do_sample": true}"#;
    let sampling = |text: &str| {
        let made = folder(&[("generation_config.json", text)]);
        HfTexts::open(made.path()).map(|texts| texts.sampling_defaults().clone())
    };
    let found = sampling(text).unwrap();
    assert_eq!((found.temperature, found.top_k, found.top_p), (Some(0.6), Some(20), Some(0.95)));
    assert_eq!(found.penalty_repeat, Some(1.05));
    assert_eq!(sampling(r#"{"do_sample": false, "temperature": 0.6}"#).unwrap().temperature, Some(0.0));
    assert!(sampling("{}").unwrap().is_empty());
    for (wrong, field) in
        [(r#"{"top_k": "many"}"#, "top_k"), (r#"{"temperature": []}"#, "temperature"), ("[]", "object")]
    {
        let said = sampling(wrong).unwrap_err().to_string();
        assert!(said.contains("generation_config.json") && said.contains(field), "{said}");
    }
}

#[test]
fn all_ends_of_a_turn_count() {
    let generation = r#"{"eos_token_id": [2, 4], "bos_token_id": 1}"#;
    let made = copied(
        "tok/gpt2",
        &[
            ("generation_config.json", generation),
            ("config.json", r#"{"text_config": {"eos_token_id": 17}}"#),
        ],
    );
    let tokenizer = HfTexts::open(made.path()).unwrap().tokenizer(&TokenizerOptions::default()).unwrap();
    assert_eq!(tokenizer.end_of_generation(), [2, 4, 17]);
}

#[test]
fn what_tokenizer_config_adds_counts_as_in_transformers() {
    let config = json(serde_json::json!({
        "bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true, "add_eos_token": true,
        "added_tokens_decoder": {"380": {"content": "<|tool|>", "special": true, "rstrip": true}, "1": {"content": "<s>", "special": true}},
        "additional_special_tokens": ["the", "not in the vocabulary"],
    }));
    let made = copied("tok/gpt2", &[("tokenizer_config.json", &config)]);
    let tokenizer = HfTexts::open(made.path()).unwrap().tokenizer(&TokenizerOptions::default()).unwrap();
    assert_eq!(tokenizer.vocab_size(), 381);
    assert!(tokenizer.adds_bos() && tokenizer.adds_eos());
    assert_eq!(tokenizer.frame(vec![50]), [1, 50, 2]);
    // One of the listed texts is not a token: it is split like other text.
    let ids = tokenizer.encode("<|tool|>  the", Special::Parse).unwrap();
    assert_eq!(ids, [&[380], tokenizer.encode("the", Special::Plain).unwrap().as_slice()].concat());
    let (pair, second) = tokenizer.frame_pair(vec![50], &[60]);
    assert_eq!((pair, second), (vec![1, 50, 2, 1, 60, 2], 4));
}

#[test]
fn a_vocabulary_of_sentencepiece_gives_its_ids() {
    let cases: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(fixture("tok/cases.json")).unwrap()).unwrap();
    let made = copied("tok/spm", &[]);
    std::fs::remove_file(made.path().join("tokenizer.json")).unwrap();
    let texts = HfTexts::open(made.path()).unwrap();
    let tokenizer = texts.tokenizer(&TokenizerOptions::default()).unwrap();
    assert_eq!((tokenizer.model(), tokenizer.adds_bos(), tokenizer.adds_eos()), ("llama", true, false));
    for (at, text) in cases["texts"].as_array().unwrap().iter().enumerate() {
        let expected: Vec<u32> = cases["kinds"]["spm"]["sentencepiece_plain"][at]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| id.as_u64().unwrap() as u32)
            .collect();
        assert_eq!(tokenizer.encode(text.as_str().unwrap(), Special::Plain).unwrap(), expected, "{text}");
    }
}

#[test]
fn trust_holds_where_special_tokens_are_looked_for_in_normalized_text() {
    let text = std::fs::read_to_string(fixture("tok/spm/tokenizer.json")).unwrap();
    let mut file: serde_json::Value = serde_json::from_str(&text).unwrap();
    // As in Llama 2's files.
    for token in file["added_tokens"].as_array_mut().unwrap() {
        token["normalized"] = true.into();
    }
    file["pre_tokenizer"] = serde_json::Value::Null;
    file["normalizer"] = serde_json::json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let tokenizer = super::built(&file.to_string()).unwrap();
    let segment = |text: &str, trusted: bool| crate::Segment { text: text.to_owned(), trusted };
    let ids = tokenizer
        .encode_segments(&[segment("<s>a b ", true), segment("</s> c", false), segment(" d</s>", true)])
        .unwrap();
    assert_eq!(ids.first(), Some(&1));
    assert_eq!(ids.iter().filter(|id| **id == 2).count(), 1);
    assert_eq!(ids.last(), Some(&2));
}
