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

/// A reader that stops ends the work.
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

/// The signal that ended it, within the same time.
fn ended_by(child: &mut Child) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    ended(child);
    child.wait().unwrap().signal()
}

fn send(signal: &str, child: &Child) {
    let command = format!("kill -{signal} {}", child.id());
    assert!(Command::new("/bin/sh").args(["-c", &command]).status().unwrap().success());
}

fn wait_until(child: &mut Child, what: &str, is_so: impl Fn() -> bool) {
    let asked = Instant::now();
    while !is_so() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself before {what}");
        assert!(asked.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// SIGTERM and SIGHUP with their numbers; under `nohup`, where SIGHUP is ignored by all that is started, the first alone.
fn endings() -> Vec<(&'static str, i32)> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1);
    [("TERM", 15), ("HUP", 1)].into_iter().filter(|(signal, _)| !ignored || *signal != "HUP").collect()
}

/// Whoever closes the terminal or ends the session loses no conversation that has a file: neither between answers nor in one.
#[test]
fn a_conversation_is_kept_when_the_terminal_closes() {
    for (signal, number) in endings() {
        let home = tempfile::tempdir().unwrap();
        let (home, model) = (home.path(), chat_model(home.path()));
        let chat = |more: &[&str]| {
            let usual = ["chat", &model, "--state", "c.state", "-c", "60000", "--temp", "0", "-t", "1"];
            start(home, &[&usual[..], more].concat())
        };
        let mut child = chat(&["-n", "4"]);
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"hello\n").unwrap();
        wait_until(&mut child, "the first answer is kept", || home.join("c.state").exists());
        send(signal, &child);
        assert_eq!(ended_by(&mut child), Some(number), "{signal}");
        drop(input);
        // In the middle of an answer.
        let mut child = chat(&["--ignore-eos"]);
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"go on\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
        send(signal, &child);
        assert_eq!(ended_by(&mut child), Some(number), "{signal}");
        drop(input);
        let resumed =
            super::fed(home, &["chat", &model, "--state", "c.state", "-c", "60000"], b"/save s.json\n");
        assert!(resumed.err.contains("continuing with 4 messages"), "{signal}: {}", resumed.err);
        resumed.good();
        let left =
            std::fs::read_dir(home).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let hidden: Vec<String> = left.filter(|name| name.contains("c.state") && name != "c.state").collect();
        assert_eq!(hidden, [""; 0], "no half of a file is left");
    }
}

#[test]
fn run_keeps_its_state_when_it_is_ended() {
    let home = tempfile::tempdir().unwrap();
    let (home, model) = (home.path(), chat_model(home.path()));
    let arguments =
        [&endless("run", &model)[..], &["--state", "r.state", "--raw", "some words to begin with"]];
    let mut child = start(home, &arguments.concat());
    drop(child.stdin.take());
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    send("TERM", &child);
    assert_eq!(ended_by(&mut child), Some(15));
    let more = ["run", &model, "--state", "r.state", "-c", "60000", "-t", "1", "-n", "1", "--raw", "--json"];
    let again = super::menagerie(home, &[&more[..], &["some words to begin with"]].concat()).good();
    let again: serde_json::Value = serde_json::from_str(&again).unwrap();
    assert!(again["cached_tokens"].as_u64().unwrap() > 3, "{again}");
}

/// Under `nohup` a closed terminal ends nothing.
#[test]
fn a_hangup_that_is_ignored_stays_so() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_menagerie")]);
    command.args(endless("run", &model)).arg("hello").current_dir(home.path()).env_clear();
    command.env("HOME", home.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    send("HUP", &child);
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 64]).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    send("TERM", &child);
    assert_eq!(ended_by(&mut child), Some(15));
}

/// What a program reads of a long run is there while it runs, and whole after any signal.
#[test]
fn metrics_are_written_while_a_command_runs_and_when_it_is_ended() {
    let value = |home: &Path, name: &str| -> f64 {
        let text = std::fs::read_to_string(home.join("m.prom")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("menagerie_{name} ")));
        line.map_or(0.0, |value| value.parse().unwrap())
    };
    let ends = endings().into_iter().map(|(signal, number)| (signal, Some(number)));
    for (signal, number) in ends.chain([("INT", None)]) {
        let home = tempfile::tempdir().unwrap();
        let (home, model) = (home.path(), chat_model(home.path()));
        let lines: Vec<String> = (0..2)
            .map(|n| format!("{{\"prompt\": \"line {n}\", \"max_tokens\": 50000, \"ignore_eos\": true}}"))
            .collect();
        std::fs::write(home.join("in.jsonl"), lines.join("\n")).unwrap();
        let batch =
            ["batch", &model, "in.jsonl", "out.jsonl", "-c", "60000", "-t", "1", "--metrics", "m.prom"];
        let mut child = start(home, &batch);
        wait_until(&mut child, "tokens are counted", || value(home, "generated_tokens_total") > 0.0);
        assert_eq!(value(home, "requests_running"), 2.0);
        send(signal, &child);
        assert_eq!(ended_by(&mut child), number, "{signal}");
        assert_eq!(child.wait().unwrap().code(), number.is_none().then_some(130));
        assert_eq!(value(home, "requests_open"), 0.0, "{signal}");
        // What ends at once writes them too: the first time is before anything is counted.
        let bench = ["bench", &model, "-p", "0", "-n", "50000", "-t", "1", "--metrics", "m.prom"];
        std::fs::remove_file(home.join("m.prom")).unwrap();
        let mut child = start(home, &bench);
        wait_until(&mut child, "the file is there", || home.join("m.prom").exists());
        std::thread::sleep(Duration::from_millis(900));
        send(signal, &child);
        assert_eq!(ended_by(&mut child), number, "{signal}");
        assert!(value(home, "steps_total") > 0.0, "{signal}");
    }
}
