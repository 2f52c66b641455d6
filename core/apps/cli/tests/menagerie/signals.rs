//! Ctrl-C, closed pipes and terminals.
#![cfg(unix)]

use super::chat_model;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn start(home: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear().env("HOME", home).env("HF_HUB_OFFLINE", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn interrupt(child: &Child) {
    let command = format!("kill -INT {}", child.id());
    assert!(Command::new("/bin/sh").args(["-c", &command]).status().unwrap().success());
}

/// Ends within a time that waiting for all of the work would not.
pub(super) fn ended(child: &mut Child) -> Option<i32> {
    let asked = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(asked.elapsed() < Duration::from_secs(20), "still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A generation that would take minutes.
pub(super) fn endless<'a>(command: &'a str, model: &'a str) -> Vec<&'a str> {
    vec![command, model, "--ignore-eos", "-c", "60000", "--temp", "0", "-t", "1"]
}

/// A1: nothing swallows the first Ctrl-C while a prompt is waited for.
#[test]
fn ctrl_c_ends_the_wait_for_standard_input() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    for arguments in [&["run", &model][..], &["run", &model, "joined"], &["chat", &model]] {
        let mut child = start(home.path(), arguments);
        // Until the handler is there a signal ends the process as well, by itself.
        std::thread::sleep(Duration::from_millis(700));
        interrupt(&child);
        assert_eq!(ended(&mut child), Some(130), "{arguments:?}");
    }
}

/// A2: 130, not success.
#[test]
fn ctrl_c_in_a_generation_is_no_success() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut arguments = endless("run", &model);
    arguments.push("hello");
    let mut child = start(home.path(), &arguments);
    drop(child.stdin.take());
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    interrupt(&child);
    assert_eq!(ended(&mut child), Some(130));
}

/// Truth bug 9: who stops reading stops the work.
#[test]
fn a_closed_pipe_ends_the_generation() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut arguments = endless("run", &model);
    arguments.push("hello");
    let mut child = start(home.path(), &arguments);
    drop(child.stdin.take());
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 8]).unwrap();
    drop(out);
    assert_eq!(ended(&mut child), Some(0));
}

/// A29: what came of an answer stays, and so does the conversation.
#[test]
fn ctrl_c_in_a_chat_keeps_the_conversation() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut child = start(home.path(), &endless("chat", &model));
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"hello\n").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    interrupt(&child);
    input.write_all(b"/save s.json\n").unwrap();
    drop(input);
    assert_eq!(ended(&mut child), Some(0));
    let saved = std::fs::read_to_string(home.path().join("s.json")).unwrap();
    let messages: Vec<serde_json::Value> = serde_json::from_str(&saved).unwrap();
    assert_eq!(messages.iter().map(|one| &one["role"]).collect::<Vec<_>>(), ["user", "assistant"]);
}

/// Waits until this is in standard error, read on a thread of its own.
fn wait_for_error(child: &mut Child, words: &str) {
    use std::io::{BufRead, BufReader};
    let lines = BufReader::new(child.stderr.take().unwrap());
    let (sender, seen) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        let line = seen.recv_timeout(Duration::from_secs(120)).expect("it says nothing more");
        if line.contains(words) {
            // What is still to be said must not stop it.
            std::mem::forget(seen);
            return;
        }
    }
}

/// The same with what it logs.
fn start_logging(home: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_menagerie"));
    command.args(arguments).current_dir(home).env_clear();
    command.env("HOME", home).env("HF_HUB_OFFLINE", "1").env("RUST_LOG", "info");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A1: while a model is opened nothing swallows the first Ctrl-C. The opening waits for a template that never comes, so
/// that this is not a race.
#[test]
fn ctrl_c_ends_the_opening_of_a_model() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let pipe = home.path().join("t.jinja");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("`mkfifo` is needed").success());
    for command in ["run", "chat"] {
        let mut arguments = vec![command, &model, "--chat-template", "t.jinja"];
        arguments.extend((command == "run").then_some("hi"));
        let mut child = start(home.path(), &arguments);
        drop(child.stdin.take());
        // Opening the pipe for writing waits for its reader.
        let writer = std::fs::File::options().write(true).open(&pipe).unwrap();
        interrupt(&child);
        assert_eq!(ended(&mut child), Some(130), "{command}");
        drop(writer);
    }
}

/// A2: neither in a prompt nor in a measurement is it a success.
#[test]
fn ctrl_c_in_a_prompt_or_a_measurement_is_no_success() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    std::fs::write(home.path().join("long.txt"), "word ".repeat(9000)).unwrap();
    let long = ["-c", "60000", "-t", "1"];
    for arguments in [
        &["run", &model, "-f", "long.txt", "--raw"][..],
        &["bench", &model, "-p", "50000", "-n", "0"],
        &["bench", &model, "-p", "0", "-n", "50000"],
    ] {
        let mut child = start_logging(home.path(), &[arguments, &long].concat());
        wait_for_error(&mut child, "model opened");
        interrupt(&child);
        assert_eq!(ended(&mut child), Some(130), "{arguments:?}");
    }
}

/// A38: what Ctrl-C cuts short leaves nothing behind.
#[test]
fn ctrl_c_leaves_no_half_of_a_file() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let ids = vec!["7"; 50_000].join(",");
    let logits =
        ["logits", &model, "--tokens", &ids, "--out", "o.st", "-c", "60000", "--chunk", "32", "-t", "1"];
    let mut synth = vec!["synth", "llama", "o.gguf", "--quant", "F32"];
    for part in [
        "block_count=200",
        "embedding_length=512",
        "feed_forward_length=2048",
        "attention.head_count=8",
        "attention.layer_norm_rms_epsilon=0.00001",
        "vocab_size=512",
        "context_length=512",
    ] {
        synth.extend(["--shape", part]);
    }
    let left = || {
        let names = std::fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).filter(|name| name.contains("o.")).collect::<Vec<_>>()
    };
    for arguments in [&logits[..], &synth] {
        let mut child = start_logging(home.path(), arguments);
        let asked = Instant::now();
        while left().is_empty() {
            assert!(asked.elapsed() < Duration::from_secs(120), "nothing is written");
            std::thread::sleep(Duration::from_millis(10));
        }
        interrupt(&child);
        assert_eq!(ended(&mut child), Some(130));
        assert_eq!(left(), [""; 0]);
    }
}
