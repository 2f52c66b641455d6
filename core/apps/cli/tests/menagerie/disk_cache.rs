//! `--cache DIR`: the next process starts with what this one has computed, and gives the same answer; `cache` lists and
//! clears the folder.

use super::batches::{results, write};
use super::{Call, call, chat_model, fed, fixture, menagerie};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// More than two blocks of tokens.
pub(super) const TEXT: &str = "The keeper counted every animal twice before the gates were opened, and wrote the sums down. \
     Then the rain began, and nobody came until the afternoon, when a child with a red umbrella asked for the owls. \
     They were asleep, as owls are at that hour, and the keeper told her so, but she stayed and drew them all the same. \
     In the evening he hung the drawing above his desk, beside the sums, and counted the owls once more.";

fn arguments<'a>(model: &'a str, prompt: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = [
        "run",
        model,
        prompt,
        "--raw",
        "--temp",
        "0",
        "-n",
        "6",
        "--ignore-eos",
        "--logprobs",
        "3",
        "--json",
    ];
    [&usual[..], more].concat()
}

fn run(home: &Path, model: &str, prompt: &str, more: &[&str]) -> Value {
    serde_json::from_str(&menagerie(home, &arguments(model, prompt, more)).good()).unwrap()
}

fn llama() -> String {
    fixture("base/llama/model-f32.gguf").to_str().unwrap().to_owned()
}

/// The answer without times and counts.
fn answer(of: &Value) -> (Value, Value) {
    (of["text"].clone(), of["tokens"].clone())
}

fn from_disk(of: &Value) -> u64 {
    of["disk_tokens"].as_u64().unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let groups = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let inside = |group: PathBuf| std::fs::read_dir(group).unwrap().map(|entry| entry.unwrap().path());
    groups.filter(|path| path.is_dir()).flat_map(inside).collect()
}

#[test]
fn a_second_process_starts_with_the_prompt_of_the_first() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), llama());
    let plain = run(home, &model, TEXT, &[]);
    let cold = run(home, &model, TEXT, &["--cache", "states"]);
    let warm = run(home, &model, TEXT, &["--cache", "states"]);
    assert_eq!(answer(&plain), answer(&cold));
    assert_eq!(answer(&plain), answer(&warm));
    let known = (warm["prompt_tokens"].as_u64().unwrap() - 1) / 64 * 64;
    assert_eq!([from_disk(&plain), from_disk(&cold), from_disk(&warm)], [0, 0, known]);
    assert!(known >= 128, "{known}");
    let said = menagerie(home, &["run", &model, TEXT, "--raw", "-n", "1", "-v", "--cache", "states"]);
    assert!(
        said.err.contains(&format!("{known} from disk")) && said.err.contains("disk cache: "),
        "{}",
        said.err
    );
    said.good();
    let other = run(home, &model, TEXT, &["--cache", "states", "--kv-type", "f16"]);
    assert_eq!(from_disk(&other), 0, "another type of keys and values");
}

/// The instruction set is not part of the address: the bits are the same.
#[test]
fn another_instruction_set_reads_the_same_states() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), llama());
    for model in [model, fixture("quant/Q4_K_M.gguf").to_str().unwrap().to_owned()] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
        command.args(arguments(&model, TEXT, &["--cache", "states"])).current_dir(home).env_clear();
        command.env("HOME", home).env("MENAGERIE_ISA", "portable");
        let portable: Value = serde_json::from_str(&call(command).good()).unwrap();
        let usual = run(home, &model, TEXT, &["--cache", "states"]);
        assert!(from_disk(&portable) == 0 && from_disk(&usual) >= 128, "{usual}");
        assert_eq!(answer(&portable), answer(&usual));
        assert_eq!(answer(&usual), answer(&run(home, &model, TEXT, &[])));
    }
}

/// The states of stages, on threads and in processes, are those of the whole model.
#[cfg(unix)]
#[test]
fn stages_share_a_folder_with_the_whole_model() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), llama());
    let whole = run(home, &model, TEXT, &["--cache", "whole"]);
    for option in ["--stages", "--stage-processes"] {
        let read = run(home, &model, TEXT, &["--cache", "whole", option, "2"]);
        let wrote = run(home, &model, TEXT, &[&format!("--cache={option}.d"), option, "2"]);
        let back = run(home, &model, TEXT, &[&format!("--cache={option}.d")]);
        assert!(from_disk(&read) >= 128 && from_disk(&wrote) == 0 && from_disk(&back) >= 128, "{option}");
        [read, wrote, back].iter().for_each(|one| assert_eq!(answer(one), answer(&whole), "{option}"));
    }
}

#[test]
fn chat_and_batch_share_a_folder() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), chat_model(home.path()));
    let body =
        json!({ "messages": [{ "role": "user", "content": TEXT }], "max_tokens": 6, "logprobs": true });
    let line =
        |id: &str| json!({ "custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": body });
    write(home, "in.jsonl", &[line("a"), line("b")]);
    let batch = |out: &str, more: &[&str]| -> Value {
        let usual = ["batch", &model, "in.jsonl", out, "--temp", "0", "--json"];
        serde_json::from_str(&menagerie(home, &[&usual[..], more].concat()).good()).unwrap()
    };
    let body_of = |out: &str, id: &str| results(home, out)[id]["response"]["body"]["choices"].clone();
    assert_eq!(batch("off.jsonl", &[])["disk_cache"], Value::Null);
    let cold = batch("cold.jsonl", &["--cache", "states"]);
    let warm = batch("warm.jsonl", &["--cache", "states"]);
    for id in ["a", "b"] {
        assert_eq!(body_of("off.jsonl", id), body_of("cold.jsonl", id));
        assert_eq!(body_of("off.jsonl", id), body_of("warm.jsonl", id));
    }
    assert_eq!((&cold["disk_cache"]["hits"], &warm["disk_cache"]["written_bytes"]), (&json!(0), &json!(0)));
    assert!(warm["disk_cache"]["hits"].as_u64().unwrap() >= 1, "{warm}");
    // A conversation that begins with the same message.
    let talk = |more: &[&str]| -> Call {
        let usual = ["chat", &model, "--temp", "0", "-n", "6", "-v"];
        fed(home, &[&usual[..], more].concat(), format!("{TEXT}\nAnd the owls?\n").as_bytes())
    };
    let (off, on) = (talk(&[]), talk(&["--cache", "states"]));
    assert!(on.err.contains("from disk") && !off.err.contains("from disk"), "{}", on.err);
    assert_eq!(off.good(), on.good());
}

/// Nothing can be written: the answer comes, with one note.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_takes_nothing_is_noted_once() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), llama());
    let plain = run(home, &model, TEXT, &[]);
    let mut command = Command::new("/bin/sh");
    // Files may not become longer than 512 bytes.
    command.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_menagerie")]);
    command
        .args(arguments(&model, TEXT, &["--cache", "states"]))
        .current_dir(home)
        .env_clear()
        .env("HOME", home);
    let limited = call(command);
    assert_eq!(limited.err.matches("cannot write the disk cache").count(), 1, "{}", limited.err);
    assert_eq!(answer(&serde_json::from_str(&limited.good()).unwrap()), answer(&plain));
    assert!(
        files(&home.join("states")).iter().all(|path| path.ends_with("about.json")),
        "nothing half is left"
    );
    std::fs::write(home.join("file"), "").unwrap();
    menagerie(home, &arguments(&model, TEXT, &["--cache", "file"])).fails_with(&[
        "file",
        "cache folder",
        "--cache",
    ]);
    menagerie(home, &arguments(&model, TEXT, &["--cache-size", "5"])).refused_with(&["--cache"]);
}

#[test]
fn the_folder_is_listed_and_cleared() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), llama());
    run(home, &model, TEXT, &["--cache", "states"]);
    run(home, &model, TEXT, &["--cache", "states", "--kv-type", "f16"]);
    std::fs::write(home.join("states/notes.txt"), "mine").unwrap();
    let listed: Value =
        serde_json::from_str(&menagerie(home, &["cache", "list", "states", "--json"]).good()).unwrap();
    let models = listed["models"].as_array().unwrap();
    assert_eq!(models.len(), 2);
    for one in models {
        assert_eq!(one["architecture"], "llama");
        let (blocks, tokens) = (one["blocks"].as_u64().unwrap(), one["tokens"].as_u64().unwrap());
        assert!(blocks >= 2 && tokens == 64 * blocks && one["last_used"].as_u64().unwrap() > 1_700_000_000);
    }
    let bytes: u64 = files(&home.join("states")).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(listed["bytes"].as_u64().unwrap(), bytes);
    let table = menagerie(home, &["cache", "list", "states"]).good();
    assert!(table.contains("llama") && table.contains("f16, cpu") && table.contains("now"), "{table}");
    let cleared: Value =
        serde_json::from_str(&menagerie(home, &["cache", "clear", "states", "--json"]).good()).unwrap();
    assert_eq!(cleared["bytes"].as_u64().unwrap(), bytes);
    assert!(files(&home.join("states")).is_empty() && home.join("states/notes.txt").exists());
    let empty = menagerie(home, &["cache", "list", "states"]).good();
    assert_eq!(empty, "the folder has no stored states\n");
    assert_eq!(from_disk(&run(home, &model, TEXT, &["--cache", "states"])), 0);
    menagerie(home, &["cache", "list", "nowhere"]).fails_with(&["nowhere", "no such folder"]);
    assert!(!home.join("nowhere").exists());
}
