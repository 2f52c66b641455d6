//! `lens`: tables, lists, JSON and errors.

use super::{chat_model, fed, fixture, menagerie};
use serde_json::{Value, json};

fn model() -> String {
    fixture("base/llama/model-f32.gguf").display().to_string()
}

#[test]
fn the_table_has_a_row_for_each_layer_and_a_column_for_each_token() {
    let home = tempfile::tempdir().unwrap();
    let call = menagerie(home.path(), &["lens", &model(), "--tokens", "1,5,9", "--layers", "0,2"]).good();
    let lines: Vec<&str> = call.lines().collect();
    assert_eq!(lines.len(), 3, "{call}");
    assert!(lines[0].starts_with("layer  0 ") && lines[0].contains("  2 "), "{}", lines[0]);
    assert_eq!([lines[1], lines[2]].map(|line| &line[..1]), ["0", "2"]);
    let narrow = menagerie(home.path(), &["lens", &model(), &"word ".repeat(40)]).good();
    assert!(narrow.lines().all(|line| line.chars().count() <= 79), "{narrow}");
    assert!(narrow.matches("layer").count() > 1, "{narrow}");
}

#[test]
fn the_last_layer_predicts_the_answer() {
    let home = tempfile::tempdir().unwrap();
    let model = model();
    let read = |arguments: &[&str]| -> Value {
        let all = [&["lens", &model, "abc", "--json"], arguments].concat();
        serde_json::from_str(&menagerie(home.path(), &all).good()).unwrap()
    };
    let plain = read(&["--top", "3"]);
    let made = read(&["-n", "4", "--top", "3"]);
    let prompt = plain["prompt_tokens"].as_u64().unwrap() as usize;
    let rows = made["rows"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[..prompt - 1]),
        (prompt + 3, &plain["rows"].as_array().unwrap()[..prompt - 1])
    );
    for row in &rows[prompt - 1..] {
        if !row["next"].is_null() {
            assert_eq!(row["next"]["id"], row["predicted"]["id"]);
        }
        let last = row["layers"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["rank"], &last["top"][0]["id"]), (&json!(1), &row["predicted"]["id"]));
        assert_eq!(last["top"].as_array().unwrap().len(), 3);
    }
    // `run` gives the same tokens.
    let run = ["run", &model, "abc", "--raw", "-n", "4", "--temp", "0", "--json"];
    let run: Value = serde_json::from_str(&menagerie(home.path(), &run).good()).unwrap();
    let ids = |list: &Value| -> Vec<Value> {
        list.as_array().unwrap().iter().map(|one| one["id"].clone()).collect()
    };
    assert_eq!(ids(&run["tokens"])[..3], ids(&made["rows"])[prompt..]);
    let chosen = read(&["--positions", "1-2", "--layers", "1"]);
    assert_eq!(chosen["rows"].as_array().unwrap().len(), 2);
    assert_eq!(chosen["rows"][0]["position"], 1);
}

#[test]
fn lists_and_messages_of_a_chat_template() {
    let home = tempfile::tempdir().unwrap();
    let chat = chat_model(home.path());
    let arguments = ["lens", &chat, "--chat", "--top", "2", "--positions", "0"];
    let call = fed(home.path(), &arguments, b"hi\n").good();
    assert!(
        call.starts_with("position 0: ") && call.contains("\nlayer  rank  probability  most likely\n"),
        "{call}"
    );
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let home = tempfile::tempdir().unwrap();
    let model = model();
    let refused = |arguments: &[&str], words: &[&str]| {
        let call = menagerie(home.path(), &[&["lens"], arguments].concat());
        assert!(matches!(call.code, Some(1 | 2)), "{arguments:?}: {call:?}");
        for word in words {
            assert!(call.err.contains(word), "{arguments:?}: {word}: {}", call.err);
        }
    };
    refused(&[&model, "a", "--layers", "3"], &["--layers", "the last layer of this model is 2"]);
    refused(&[&model, "a", "--layers", "b"], &["`b` is not a layer"]);
    refused(&[&model, "a", "--positions", "50"], &["--positions", "the last position of the prompt is"]);
    refused(&[&model, "a", "--top", "0"], &["1 to 100"]);
    refused(&[&model, "a", "--tokens", "1"], &["--tokens"]);
    refused(&[&model, "--tokens", "1,9999"], &["9999"]);
    let bert = fixture("zoo/bert/model-f16.gguf").display().to_string();
    refused(&[&bert, "a"], &["bert"]);
    let hrm = fixture("zoo/hrm_text/model-f16.gguf").display().to_string();
    refused(&[&hrm, "--tokens", "1,2"], &["no logit lens", "two streams"]);
}
