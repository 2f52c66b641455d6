//! `batch`: failed lines stay failures until they are computed again, and templates count by their text.

use super::batches::{batch, chat, results, write};
use super::{TEMPLATE, chat_model, fixture};
use serde_json::{Value, json};
use std::path::Path;

fn text(home: &Path, name: &str) -> String {
    std::fs::read_to_string(home.join(name)).unwrap()
}

fn faulty(id: &str) -> Value {
    chat(id, "hello", &json!({ "functions": [] }))
}

#[test]
fn failed_lines_are_retried_and_replaced_in_their_places() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), chat_model(home.path()));
    let good = |id: &str| chat(id, "hello", &json!({}));
    write(home, "in.jsonl", &[good("a"), faulty("b"), good("c"), faulty("d")]);
    batch(home, &model, &["--parallel", "1"]).fails_with(&["2 answered, 2 failed"]);
    let before = text(home, "out.jsonl");
    let ids = |text: &str| -> Vec<String> {
        let ids = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["custom_id"].clone());
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    // A line that was corrected of IN has changed, which only a retry takes.
    write(home, "in.jsonl", &[good("a"), good("b"), good("c"), faulty("d")]);
    batch(home, &model, &[]).fails_with(&["line 2 (\"b\") of IN has changed", "help: --retry-failed"]);
    assert_eq!(text(home, "out.jsonl"), before);
    let call = batch(home, &model, &["--retry-failed", "--json"]);
    let summary: Value = serde_json::from_str(&call.out).unwrap();
    assert_eq!(summary["results"], json!({ "answered": 3, "failed": 1 }), "{call:?}");
    assert_eq!((&summary["answered"], &summary["failed"]), (&json!(1), &json!(1)), "of this run");
    call.fails_with(&["3 answered, 1 failed"]);
    let after = text(home, "out.jsonl");
    assert_eq!(ids(&after), ids(&before));
    for (old, new) in before.lines().zip(after.lines()) {
        let retried = ["b", "d"].iter().any(|id| old.contains(&format!("\"custom_id\":\"{id}\"")));
        assert!(retried || old == new, "{old} became {new}");
    }
    assert_eq!(results(home, "out.jsonl")["b"]["response"]["status_code"], 200);
    write(home, "in.jsonl", &[good("a"), good("b"), good("c"), good("d")]);
    batch(home, &model, &["--retry-failed"]).good();
    batch(home, &model, &[]).good();
    batch(home, &model, &["--retry-failed", "--force"]).refused_with(&["--retry-failed", "--force"]);
    let nowhere = ["batch", &model, "in.jsonl", "-", "--retry-failed"];
    super::menagerie(home, &nowhere).refused_with(&["--retry-failed replaces results in OUT"]);
}

/// A kill in the middle of a retry loses no result, old or new, and doubles none.
#[cfg(unix)]
#[test]
fn a_retry_survives_a_kill() {
    use std::process::{Command, Stdio};
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), chat_model(home.path()));
    let options = ["-c", "20000", "--parallel", "1"];
    write(home, "in.jsonl", &[chat("a", "hello", &json!({})), faulty("b"), faulty("c")]);
    batch(home, &model, &options).fails_with(&["1 answered, 2 failed"]);
    let before = text(home, "out.jsonl");
    let endless = json!({ "max_tokens": 19000, "ignore_eos": true });
    let quick = chat("b", "hello", &json!({}));
    write(home, "in.jsonl", &[chat("a", "hello", &json!({})), quick.clone(), chat("c", "hello", &endless)]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args([
        "batch",
        &model,
        "in.jsonl",
        "out.jsonl",
        "--temp",
        "0",
        "-n",
        "6",
        "-t",
        "1",
        "--retry-failed",
    ]);
    command.args(options).current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !std::fs::read_to_string(home.join("out.jsonl.retry")).is_ok_and(|text| text.ends_with('\n')) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let retried = text(home, "out.jsonl.retry");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(text(home, "out.jsonl"), before, "every line has its old result until all have new ones");
    // Without the option the results that were done are taken up, and nothing else is computed.
    write(home, "in.jsonl", &[chat("a", "hello", &json!({})), quick.clone(), faulty("c")]);
    batch(home, &model, &options).fails_with(&["2 answered, 1 failed"]);
    assert!(!home.join("out.jsonl.retry").exists());
    assert_eq!(results(home, "out.jsonl").len(), 3);
    assert!(text(home, "out.jsonl").contains(&retried), "what was computed is not computed again");
    write(home, "in.jsonl", &[chat("a", "hello", &json!({})), quick, chat("c", "hello", &json!({}))]);
    batch(home, &model, &[&options[..], &["--retry-failed"]].concat()).good();
    assert_eq!(results(home, "out.jsonl").len(), 3);
}

/// A batch that is run again with another text of the template would mix two forms of prompts in OUT.
#[test]
fn a_template_that_changed_in_place_is_not_continued_with() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let other = TEMPLATE.replace("<assistant>", "<answer>");
    assert_ne!(other, TEMPLATE);
    std::fs::create_dir(home.join("folder")).unwrap();
    for file in std::fs::read_dir(fixture("base/llama/hf")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), home.join("folder").join(file.file_name())).unwrap();
    }
    let base = fixture("base/llama/model-f32.gguf").display().to_string();
    let recipe = format!("schema = 1\n[recipe]\nbase = {base:?}\n[chat]\ntemplate = \"recipe.jinja\"\n");
    std::fs::write(home.join("mine.recipe.toml"), recipe).unwrap();
    for (template, model, option) in [
        ("t.jinja", base.as_str(), &["--chat-template", "t.jinja"][..]),
        ("folder/chat_template.jinja", "folder", &[]),
        ("recipe.jinja", "mine.recipe.toml", &[]),
    ] {
        let put = |text: &str| std::fs::write(home.join(template), text).unwrap();
        let run = || batch(home, model, &[option, &["-c", "512"]].concat());
        let _ = std::fs::remove_file(home.join("out.jsonl"));
        put(TEMPLATE);
        write(home, "in.jsonl", &[chat("a", "one", &json!({}))]);
        run().good();
        let answered = text(home, "out.jsonl");
        write(home, "in.jsonl", &[chat("a", "one", &json!({})), chat("b", "two", &json!({}))]);
        put(&other);
        run().fails_with(&[
            "its results were made with another model or options: chat_template was",
            "--force replaces this one",
        ]);
        assert_eq!(text(home, "out.jsonl"), answered, "{template}");
        put(TEMPLATE);
        run().good();
        // The same text under another name is the same template.
        if !option.is_empty() {
            std::fs::rename(home.join("t.jinja"), home.join("u.jinja")).unwrap();
            batch(home, model, &["--chat-template", "u.jinja", "-c", "512"]).good();
        }
    }
}
