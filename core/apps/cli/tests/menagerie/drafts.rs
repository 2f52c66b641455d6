//! `--draft`: answers are the same, and what cannot be drafted is refused.

use super::batches::{chat, results, write};
use super::{chat_model, fixture, menagerie};
use serde_json::{Value, json};

/// The path of a model of the fixtures.
fn path(name: &str) -> String {
    fixture(name).to_string_lossy().into_owned()
}

/// The result of `run --json` without times and counts of guesses.
fn answer(arguments: &[&str]) -> Value {
    let home = tempfile::tempdir().unwrap();
    let mut answer: Value = serde_json::from_str(&menagerie(home.path(), arguments).good()).unwrap();
    for key in ["seconds", "drafted_tokens", "accepted_tokens"] {
        assert!(answer.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    answer
}

#[test]
fn an_answer_is_the_same_with_drafts() {
    let samplings = [
        &["--temp", "0", "--seed", "1"][..],
        &["--temp", "0.9", "--seed", "7"],
        &["--seed", "3", "--repeat-penalty", "1.2"],
    ];
    let models = ["base/llama/model-f32.gguf", "zoo/mamba/model-f16.gguf", "zoo/falcon-h1/model-f16.gguf"];
    for (file, sampling) in models.into_iter().flat_map(|file| samplings.map(|sampling| (file, sampling))) {
        let model = fixture(file).to_string_lossy().into_owned();
        let run =
            ["run", &model, "one two one two one two one", "--raw", "-n", "80", "--logprobs", "2", "--json"];
        let run = [&run[..], sampling].concat();
        let plain = answer(&run);
        // The model itself, and one with other weights; the other two have vocabularies of their own.
        let other = if file.starts_with("base/llama/") { "base/qwen3/model-f32.gguf" } else { file };
        for draft in ["lookup", "off", &model, &path(other)] {
            assert_eq!(answer(&[&run[..], &["--draft", draft]].concat()), plain, "{draft} {sampling:?}");
        }
    }
}

/// The guesses of a head that the file has; a file without one is refused.
#[test]
fn an_answer_is_the_same_with_the_guesses_of_a_head() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("heads/glm4moe/model-f16.gguf").to_string_lossy().into_owned();
    for sampling in [&["--temp", "0", "--seed", "1"][..], &["--temp", "0.7", "--seed", "5"]] {
        let run = ["run", &model, "one two three", "--raw", "-n", "60", "--logprobs", "2", "--json"];
        let run = [&run[..], sampling].concat();
        assert_eq!(answer(&[&run[..], &["--draft", "heads"]].concat()), answer(&run), "{sampling:?}");
    }
    for (file, words) in [
        ("zoo/glm4moe/model-f16.gguf", "no head that predicts further tokens"),
        ("base/llama/model-f32.gguf", "[nextn]"),
    ] {
        let model = fixture(file).to_string_lossy().into_owned();
        let run = ["run", &model, "abc", "--raw", "-n", "2", "--draft", "heads"];
        menagerie(home.path(), &run).fails_with(&[words, "--draft heads"]);
    }
    let staged = ["run", &model, "abc", "--raw", "-n", "2", "--draft", "heads", "--stages", "2"];
    let refused = menagerie(home.path(), &staged);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("--stages"), "{refused:?}");
}

/// The choice is no part of what OUT depends on: a run continues with another one.
#[test]
fn a_batch_answers_the_same_and_continues_with_another_choice() {
    let home = tempfile::tempdir().unwrap();
    let model = fixture("base/llama/model-f32.gguf").to_string_lossy().into_owned();
    let line = |at: usize| json!({ "prompt": "a b c a b c a b", "max_tokens": 40, "seed": at, "custom_id": at.to_string() });
    write(home.path(), "in.jsonl", &[line(0), line(1), line(2), line(3)]);
    let run = |out: &str, draft: &[&str]| {
        menagerie(home.path(), &[&["batch", &model, "in.jsonl", out, "--raw", "--json"], draft].concat())
            .good()
    };
    run("plain.jsonl", &[]);
    run("drafted.jsonl", &["--draft", "lookup"]);
    run("other.jsonl", &["--draft", &model]);
    let choices = |file: &str| -> Vec<Value> {
        results(home.path(), file)
            .into_values()
            .map(|line| line["response"]["body"]["choices"].clone())
            .collect()
    };
    assert_eq!(choices("plain.jsonl"), choices("drafted.jsonl"));
    assert_eq!(choices("plain.jsonl"), choices("other.jsonl"));
    let again: Value = serde_json::from_str(&run("drafted.jsonl", &["--draft", "off"])).unwrap();
    assert_eq!((&again["answered"], &again["results"]["answered"]), (&json!(0), &json!(4)));
}

/// With a constraint, and with an adapter, which the draft model does not have.
#[test]
fn constraints_and_adapters_go_with_a_draft_model() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let schema = json!({ "type": "object", "properties": { "kind": { "enum": ["cat", "dog"] },
        "text": { "type": "string", "maxLength": 20 } }, "required": ["kind", "text"], "additionalProperties": false });
    std::fs::write(home.path().join("s.json"), schema.to_string()).unwrap();
    let schema = home.path().join("s.json").to_string_lossy().into_owned();
    let adapter = path("lora/llama/adapters/a0");
    for more in [&["--json-schema", &schema][..], &["--lora", &adapter]] {
        for sampling in [["--temp", "0", "--seed", "1"], ["--temp", "2", "--seed", "4"]] {
            let run = ["run", &model, "Say it", "-n", "60", "--logprobs", "1", "--json"];
            let run = [&run[..], more, &sampling].concat();
            let plain = answer(&run);
            for draft in [&model, &path("base/mistral3/model-f32.gguf")] {
                assert_eq!(answer(&[&run[..], &["--draft", draft]].concat()), plain, "{draft} {more:?}");
            }
        }
    }
}

/// The field changes no answer, is counted, and is named where it is wrong; a model that cannot be drafted takes it, too.
#[test]
fn a_prediction_changes_no_answer() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let predicted =
        |text: &str| json!({ "prediction": { "type": "content", "content": text }, "max_tokens": 40 });
    write(home.path(), "in.jsonl", &[chat("plain", "abc", &json!({ "max_tokens": 40 }))]);
    let batch = |out: &str, more: &[&str]| {
        let run = ["batch", &model, "in.jsonl", out, "--temp", "0", "-t", "1"];
        menagerie(home.path(), &[&run[..], more].concat()).good();
        results(home.path(), out)
    };
    let body = |results: &std::collections::BTreeMap<String, Value>, id: &str| {
        results[id]["response"]["body"].clone()
    };
    let plain = body(&batch("plain.jsonl", &[]), "plain");
    let said = plain["choices"][0]["message"]["content"].as_str().unwrap();
    let lines = [
        chat("right", "abc", &predicted(said)),
        chat("wrong", "abc", &predicted("something else, and nothing of the answer")),
    ];
    write(home.path(), "in.jsonl", &lines);
    for (out, more) in [("p.jsonl", &[][..]), ("m.jsonl", &["--draft", &model])] {
        let found = batch(out, more);
        for id in ["right", "wrong"] {
            let body = body(&found, id);
            assert_eq!(body["choices"], plain["choices"], "{id} {out}");
            let details = &body["usage"]["completion_tokens_details"];
            assert!(details["accepted_prediction_tokens"].is_u64(), "{body}");
            assert!(details["rejected_prediction_tokens"].is_u64(), "{body}");
        }
    }
    let bad = json!({ "prediction": { "type": "content", "content": 7 } });
    let completion = json!({ "prompt": [5, 6], "prediction": { "type": "content", "content": "a" } });
    let mut completion =
        json!({ "custom_id": "completion", "method": "POST", "url": "/v1/completions", "body": completion });
    write(home.path(), "bad.jsonl", &[chat("bad", "abc", &bad), completion.take()]);
    menagerie(home.path(), &["batch", &model, "bad.jsonl", "b.jsonl", "-t", "1"]).fails_with(&["2 failed"]);
    let found = results(home.path(), "b.jsonl");
    assert_eq!(body(&found, "bad")["error"]["param"], "prediction.content");
    assert_eq!(body(&found, "completion")["error"]["param"], "prediction");
}

#[test]
fn what_cannot_be_drafted_is_refused_before_anything_is_computed() {
    let home = tempfile::tempdir().unwrap();
    let llama = fixture("base/llama/model-f32.gguf").to_string_lossy().into_owned();
    let draft = |name: &str| menagerie(home.path(), &["run", &llama, "abc", "--raw", "--draft", name]);
    draft("missing.gguf").fails_with(&["missing.gguf"]);
    draft(&path("base/phi2/model-f32.gguf")).fails_with(&["vocabularies differ", "token 310 is", "--draft"]);
    let vector = fixture("control/a.gguf").to_string_lossy().into_owned();
    let steered = ["--control-vector", &vector];
    let run = [&["run", &llama, "abc", "--raw", "-n", "2", "--draft", "lookup"][..], &steered].concat();
    menagerie(home.path(), &run).fails_with(&["drafts are not possible", "the hook", "--draft"]);
    menagerie(home.path(), &run[..6]).good();
}
