//! `--draft`: answers are the same, and what cannot be drafted is refused.

use super::batches::{results, write};
use super::{fixture, menagerie};
use serde_json::{Value, json};

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
    let model = fixture("base/llama/model-f32.gguf").to_string_lossy().into_owned();
    for sampling in [
        &["--temp", "0", "--seed", "1"][..],
        &["--temp", "0.9", "--seed", "7"],
        &["--seed", "3", "--repeat-penalty", "1.2"],
    ] {
        let run =
            ["run", &model, "one two one two one two one", "--raw", "-n", "80", "--logprobs", "2", "--json"];
        let run = [&run[..], sampling].concat();
        let plain = answer(&run);
        for draft in ["lookup", "off"] {
            assert_eq!(answer(&[&run[..], &["--draft", draft]].concat()), plain, "{draft} {sampling:?}");
        }
    }
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
    let choices = |file: &str| -> Vec<Value> {
        results(home.path(), file)
            .into_values()
            .map(|line| line["response"]["body"]["choices"].clone())
            .collect()
    };
    assert_eq!(choices("plain.jsonl"), choices("drafted.jsonl"));
    let again: Value = serde_json::from_str(&run("drafted.jsonl", &["--draft", "off"])).unwrap();
    assert_eq!((&again["answered"], &again["results"]["answered"]), (&json!(0), &json!(4)));
}

#[test]
fn what_cannot_be_drafted_is_refused_before_anything_is_computed() {
    let home = tempfile::tempdir().unwrap();
    let mamba = fixture("zoo/mamba/model-f16.gguf").to_string_lossy().into_owned();
    let run = ["run", &mamba, "abc", "--raw", "-n", "2", "--draft", "lookup"];
    menagerie(home.path(), &run).fails_with(&["drafts are not possible", "recurrent state", "--draft"]);
    menagerie(home.path(), &run[..6]).good();
    let llama = fixture("base/llama/model-f32.gguf").to_string_lossy().into_owned();
    let unknown = menagerie(home.path(), &["run", &llama, "abc", "--raw", "--draft", "heads"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("lookup") && unknown.err.contains("off"), "{unknown:?}");
}
