//! `--state FILE`: what a model has read goes on in the next call, or is refused by name.

use super::{Call, chat_model, fed, fixture, menagerie};
use std::path::Path;

fn run(home: &Path, prompt: &str, more: &[&str]) -> Call {
    let model = fixture("base/llama/model-f32.gguf");
    std::fs::write(home.join("prompt.txt"), prompt).unwrap();
    let usual = [
        "run",
        model.to_str().unwrap(),
        "--raw",
        "-f",
        "prompt.txt",
        "--temp",
        "0",
        "-n",
        "6",
        "--ignore-eos",
    ];
    menagerie(home, &[&usual[..], more].concat())
}

const BEGINNING: &str =
    "The keeper counted every animal twice before the gates were opened, and wrote the sums down.";

fn json(call: Call) -> serde_json::Value {
    serde_json::from_str(&call.good()).unwrap()
}

/// Files of a folder by name, those that are hidden too.
fn files(home: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(home).unwrap();
    let mut names: Vec<String> = entries.map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_longer_prompt_goes_on_and_gives_the_same_answer() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let first = json(run(home, BEGINNING, &["--json", "--state", "a.state"]));
    assert_eq!(first["cached_tokens"], 0);
    let longer = format!("{BEGINNING} Then the rain began, and nobody came.");
    let plain = json(run(home, &longer, &["--json"]));
    let resumed = json(run(home, &longer, &["--json", "--state", "a.state"]));
    assert_eq!(resumed["text"], plain["text"]);
    assert_eq!(resumed["tokens"], plain["tokens"]);
    let count = |of: &serde_json::Value, key: &str| of[key].as_u64().unwrap();
    // The last token of the first text may be another one where it goes on.
    assert!(count(&resumed, "cached_tokens") + 2 >= count(&first, "prompt_tokens"), "{resumed}");
    assert_eq!(count(&plain, "cached_tokens"), 0);
    assert_eq!(files(home), ["a.state", "prompt.txt"], "no lock and no half file is left");
    // The file holds the longer one now.
    let again = json(run(home, &longer, &["--json", "--state", "a.state"]));
    assert_eq!(
        (&again["text"], count(&again, "cached_tokens")),
        (&plain["text"], count(&plain, "prompt_tokens") - 1)
    );
    let other = run(home, "Zebras are seldom seen where the keeper lives.", &["--state", "a.state", "-v"]);
    assert!(other.err.contains("tokens that a.state held, 1 begin the prompt"), "{}", other.err);
    assert!(other.err.contains("kept in a.state"), "{}", other.err);
    other.good();
}

#[test]
fn what_does_not_fit_is_refused_and_stays() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    run(home, BEGINNING, &["--state", "a.state"]).good();
    let kept = std::fs::read(home.join("a.state")).unwrap();
    run(home, BEGINNING, &["--state", "a.state", "--kv-type", "f16"]).fails_with(&[
        "a.state",
        "cache type was f32 and is f16",
        "help: open the model as it was then",
    ]);
    run(home, BEGINNING, &["--state", "a.state", "-c", "16"]).fails_with(&["a.state", "room for 16"]);
    run(home, BEGINNING, &["--state", "prompt.txt"]).fails_with(&["prompt.txt: it is no state file"]);
    run(home, BEGINNING, &["--state", "."]).fails_with(&["is no file"]);
    run(home, BEGINNING, &["--state", "absent/a.state"]).fails_with(&["absent/a.state"]);
    let mut bad = kept.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 4;
    std::fs::write(home.join("bad.state"), &bad).unwrap();
    run(home, BEGINNING, &["--state", "bad.state"]).fails_with(&[
        "bad.state",
        "is damaged",
        "remove this one",
    ]);
    assert_eq!(std::fs::read(home.join("bad.state")).unwrap(), bad);
    assert_eq!(std::fs::read(home.join("a.state")).unwrap(), kept);
    let lock = std::fs::File::create(home.join(".a.state.lock")).unwrap();
    lock.try_lock().unwrap();
    run(home, BEGINNING, &["--state", "a.state"]).fails_with(&["a.state: another process keeps its state"]);
    drop(lock);
    run(home, BEGINNING, &["--state", "a.state"]).good();
}

#[test]
fn a_conversation_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let model = chat_model(home);
    let chat = |input: &str, more: &[&str]| {
        let usual = ["chat", &model, "-n", "4", "--temp", "0", "--ignore-eos"];
        fed(home, &[&usual[..], more].concat(), input.as_bytes())
    };
    let whole = chat("first\nsecond\n/save whole.json\n", &[]);
    let first = chat("first\n", &["--state", "c.state"]);
    assert!(first.err.contains("kept 2 messages in c.state"), "{}", first.err);
    let second = chat("second\n/save parts.json\n", &["--state", "c.state", "-v"]);
    assert!(second.err.contains("going on with 2 messages"), "{}", second.err);
    assert!(second.err.contains(" cached)"), "{}", second.err);
    assert_eq!(first.good() + &second.good(), whole.good());
    let read = |name: &str| std::fs::read_to_string(home.join(name)).unwrap();
    assert_eq!(read("parts.json"), read("whole.json"));
    menagerie(home, &["run", &model, "--state", "c.state", "-n", "2", "hello"])
        .fails_with(&["c.state: it holds a conversation of 4 messages", "name another file"]);
}

/// Where a file may not grow, nothing of it is left, and what was there stays.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_old_file() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    run(home, BEGINNING, &["--state", "a.state"]).good();
    let kept = std::fs::read(home.join("a.state")).unwrap();
    std::fs::write(home.join("prompt.txt"), BEGINNING.repeat(3)).unwrap();
    let mut command = std::process::Command::new("/bin/sh");
    // A signal that is ignored stays so: what is too long for the limit is an error of the write.
    command.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_menagerie")]);
    let model = fixture("base/llama/model-f32.gguf");
    command.args([
        "run",
        model.to_str().unwrap(),
        "--raw",
        "-f",
        "prompt.txt",
        "-n",
        "2",
        "--state",
        "a.state",
    ]);
    command.current_dir(home).env_clear().env("HOME", home);
    super::call(command).fails_with(&["a.state: cannot write"]);
    assert_eq!(std::fs::read(home.join("a.state")).unwrap(), kept);
    assert_eq!(files(home), ["a.state", "prompt.txt"]);
}

#[test]
fn metrics_count_what_was_done() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    run(home, BEGINNING, &["--state", "a.state"]).good();
    let answer = json(run(home, BEGINNING, &["--json", "--state", "a.state", "--metrics", "m.txt"]));
    let text = std::fs::read_to_string(home.join("m.txt")).unwrap();
    let value = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("menagerie_{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
    };
    let count = |key: &str| answer[key].as_f64().unwrap();
    assert_eq!(value("requests_total{outcome=\"length\"}"), 1.0);
    assert_eq!(value("requests_open"), 0.0);
    assert_eq!(value("prompt_tokens_total"), count("prompt_tokens"));
    assert_eq!(value("cached_tokens_total"), count("cached_tokens"));
    assert_eq!(value("generated_tokens_total"), 6.0);
    // The rest of the prompt in one step, and one for each token that was fed back.
    assert_eq!((value("steps_total"), value("step_rows_total")), (6.0, 1.0 + 5.0));
    assert_eq!((value("step_seconds_count"), value("time_between_tokens_seconds_count")), (6.0, 5.0));
    assert_eq!(value("time_to_first_token_seconds_count"), 1.0);
    assert!(value("state_bytes") > 0.0 && value("step_seconds_sum") > 0.0);
    // Nothing to count: the model does not open.
    menagerie(home, &["run", "absent.gguf", "hello", "--metrics", "n.txt"]).fails_with(&["absent.gguf"]);
    assert!(!home.join("n.txt").exists());
}
