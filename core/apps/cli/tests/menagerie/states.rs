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
    assert!(other.err.contains("tokens in a.state match the prompt"), "{}", other.err);
    assert!(other.err.contains("saved in a.state"), "{}", other.err);
    other.good();
}

/// What a model in stages keeps the whole one goes on with, and the other way round, with the same answer; an X-LoRA too, which
/// has two sets of states.
#[cfg(unix)]
#[test]
fn stages_go_on_where_one_model_was() {
    go_on_in_stages(&[]);
    let xlora = fixture("lora/llama/xlora/depth2_topk2");
    go_on_in_stages(&["--xlora", xlora.to_str().unwrap()]);
}

#[cfg(unix)]
fn go_on_in_stages(with: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let longer = format!("{BEGINNING} Then the rain began, and nobody came.");
    let plain = json(run(home, &longer, &[with, &["--json"]].concat()));
    let (one, threads, processes) = (&[][..], &["--stages", "2"][..], &["--stage-processes", "2"][..]);
    for (first, second) in [(one, processes), (processes, one), (processes, threads), (threads, processes)] {
        let what = format!("{with:?}: {first:?}, then {second:?}");
        let kept = [with, &["--json", "--state", "a.state"]].concat();
        let begun = json(run(home, BEGINNING, &[first, &kept].concat()));
        let resumed = json(run(home, &longer, &[second, &kept].concat()));
        assert_eq!((&resumed["text"], &resumed["tokens"]), (&plain["text"], &plain["tokens"]), "{what}");
        let count = |of: &serde_json::Value, key: &str| of[key].as_u64().unwrap();
        assert!(count(&resumed, "cached_tokens") + 2 >= count(&begun, "prompt_tokens"), "{what}: {resumed}");
        std::fs::remove_file(home.join("a.state")).unwrap();
    }
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
        "help: open the model with the old settings, or name another file",
    ]);
    run(home, BEGINNING, &["--state", "a.state", "-c", "16"]).fails_with(&["a.state", "room for 16"]);
    run(home, BEGINNING, &["--state", "prompt.txt"]).fails_with(&["prompt.txt: it is not a state file"]);
    run(home, BEGINNING, &["--state", "."]).fails_with(&["not a file"]);
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
    run(home, BEGINNING, &["--state", "a.state"])
        .fails_with(&["a.state: another process uses this state file"]);
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
    assert!(first.err.contains("saved 2 messages in c.state"), "{}", first.err);
    let second = chat("second\n/save parts.json\n", &["--state", "c.state", "-v"]);
    assert!(second.err.contains("continuing with 2 messages"), "{}", second.err);
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
