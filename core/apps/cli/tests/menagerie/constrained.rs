//! Structured output: `--json-schema`, `--grammar`, `--regex`, and `response_format` in `batch`.

use super::batches::{batch, chat, results, write};
use super::{Call, chat_model, menagerie};
use serde_json::{Value, json};
use std::path::Path;

fn run(home: &Path, model: &str, more: &[&str]) -> Call {
    let mut arguments =
        vec!["run", model, "Say it", "--temp", "3", "--seed", "5", "-t", "1", "-n", "60", "--json"];
    arguments.extend(more);
    menagerie(home, &arguments)
}

fn answer(call: &Call) -> Value {
    assert_eq!(call.code, Some(0), "{call:?}");
    serde_json::from_str(&call.out).unwrap()
}

/// Weights are random and the temperature is high, so what is not constrained is noise.
#[test]
fn answers_fit_what_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let schema = json!({
        "type": "object",
        "properties": { "kind": { "enum": ["cat", "dog"] }, "age": { "type": "integer", "minimum": 0, "maximum": 30 } },
        "required": ["kind", "age"], "additionalProperties": false,
    });
    std::fs::write(home.path().join("s.json"), schema.to_string()).unwrap();
    std::fs::write(home.path().join("g.lark"), "start: \"<\" WORD \">\"\nWORD: /[ab]{2,4}/\n").unwrap();
    for seed in ["1", "2", "3"] {
        let said = answer(&run(home.path(), &model, &["--json-schema", "s.json", "--seed", seed]));
        let value: Value = serde_json::from_str(said["text"].as_str().unwrap()).unwrap();
        assert!(["cat", "dog"].contains(&value["kind"].as_str().unwrap()), "{value}");
        assert!(value["age"].as_u64().unwrap() <= 30 && value.as_object().unwrap().len() == 2, "{value}");
        assert_eq!(said["stop"]["reason"], "complete");
        assert!(said["seconds"]["constraint"].as_f64().unwrap() > 0.0, "{said}");
        let said = answer(&run(home.path(), &model, &["--grammar", "g.lark", "--seed", seed]));
        let text = said["text"].as_str().unwrap();
        let word = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap();
        assert!((2..=4).contains(&word.len()) && word.chars().all(|one| "ab".contains(one)), "{text}");
        let said = answer(&run(home.path(), &model, &["--regex", "(yes|no)", "--seed", seed]));
        assert!(["yes", "no"].contains(&said["text"].as_str().unwrap()), "{said}");
    }
    // At the limit on tokens the text stays as it is.
    let cut = answer(&run(home.path(), &model, &["--json-schema", "s.json", "-n", "3"]));
    assert_eq!(cut["stop"]["reason"], "max-tokens");
    assert!(cut["text"].as_str().unwrap().starts_with('{'), "{cut}");
    let free = answer(&run(home.path(), &model, &[]));
    assert!(free["seconds"]["constraint"].is_null());
}

#[test]
fn what_cannot_be_enforced_is_refused_before_a_model_is_opened() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    file("not.json", "{ \"type\": \"string\", \"not\": { \"const\": \"a\" } }");
    file("torn.json", "{\n \"type\": ");
    file("bad.lark", "start: missing");
    for (arguments, code, words) in [
        (&["--json-schema", "not.json"][..], 1, "not.json: JSON schema: `not` at the root is not supported"),
        (&["--json-schema", "torn.json"], 1, "torn.json:2:"),
        (&["--json-schema", "none.json"], 1, "none.json"),
        (&["--grammar", "bad.lark"], 1, "bad.lark: the Lark grammar cannot be compiled"),
        (&["--regex", "(a"], 2, "--regex: the regular expression cannot be compiled"),
        (&["--regex", "a", "--grammar", "bad.lark"], 2, "cannot be used with"),
        (&["--regex", "a", "--ignore-eos"], 2, "cannot be used with"),
    ] {
        // The file is not a model either; the error is about the constraint, which is checked first.
        std::fs::write(home.path().join("none.gguf"), "").unwrap();
        let call = run(home.path(), "none.gguf", arguments);
        assert_eq!(call.code, Some(code), "{call:?}");
        assert!(call.err.contains(words), "{words}: {}", call.err);
        assert!(!call.err.contains("none.gguf:"), "{}", call.err);
    }
}

#[test]
fn lines_of_a_batch_have_formats_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let schema = |schema: &Value| json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema, "strict": true } });
    let pair =
        schema(&json!({ "type": "array", "items": { "type": "boolean" }, "minItems": 2, "maxItems": 2 }));
    let format =
        |id: &str, format: &Value| chat(id, "hello", &json!({ "response_format": format, "max_tokens": 60 }));
    write(
        home.path(),
        "in.jsonl",
        &[
            chat("free", "hello", &json!({})),
            format("pair", &pair),
            format("again", &pair),
            format("text", &json!({ "type": "text" })),
            format("object", &json!({ "type": "json_object" })),
            format("unsupported", &schema(&json!({ "uniqueItems": true }))),
            format("unknown", &json!({ "type": "xml" })),
            chat(
                "eos",
                "hello",
                &json!({ "response_format": { "type": "json_object" }, "ignore_eos": true }),
            ),
        ],
    );
    let call = batch(home.path(), &model, &["--parallel", "8"]);
    assert_eq!(call.code, Some(1), "{call:?}");
    let results = results(home.path(), "out.jsonl");
    let choice = |id: &str| &results[id]["response"]["body"]["choices"][0];
    for id in ["pair", "again"] {
        let content = choice(id)["message"]["content"].as_str().unwrap();
        let value: Vec<bool> = serde_json::from_str(content).unwrap();
        assert_eq!((value.len(), &choice(id)["finish_reason"]), (2, &json!("stop")), "{content}");
    }
    assert_eq!(choice("pair")["message"], choice("again")["message"]);
    assert!(choice("object")["message"]["content"].as_str().unwrap().starts_with('{'));
    // `-n 6` of the command, and a format that is text: the same answer as without one, as far as both go.
    let (free, text) = (&choice("free")["message"]["content"], &choice("text")["message"]["content"]);
    assert!(text.as_str().unwrap().starts_with(free.as_str().unwrap()), "{free} {text}");
    for (id, words) in [
        ("unsupported", "response_format: JSON schema: `uniqueItems` at the root is not supported"),
        ("unknown", "only text, json_object and json_schema"),
        ("eos", "ignore_eos"),
    ] {
        assert_eq!(results[id]["response"]["status_code"], 400, "{id}");
        let message = results[id]["response"]["body"]["error"]["message"].as_str().unwrap();
        assert!(message.contains(words), "{message}");
    }
}
