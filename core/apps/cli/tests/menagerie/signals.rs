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
fn ended(child: &mut Child) -> Option<i32> {
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
fn endless<'a>(command: &'a str, model: &'a str) -> Vec<&'a str> {
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

/// What is typed and seen on a terminal, by way of `script` of util-linux.
#[cfg(target_os = "linux")]
struct Terminal {
    child: Child,
    seen: std::sync::mpsc::Receiver<Vec<u8>>,
    text: String,
}

#[cfg(target_os = "linux")]
impl Terminal {
    fn start(home: &Path, arguments: &str) -> Self {
        let line = format!("stty -echo; exec {} {arguments}", env!("CARGO_BIN_EXE_menagerie"));
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
        command.current_dir(home).env("HOME", home).env("SHELL", "/bin/sh").env("TERM", "xterm");
        command.env_remove("NO_COLOR").env("HF_HUB_OFFLINE", "1");
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = spawned.expect("`script` of util-linux is needed for tests of terminals");
        let mut out = child.stdout.take().unwrap();
        let (sender, seen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = out.read(&mut bytes) {
                if count == 0 || sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { child, seen, text: String::new() }
    }

    /// Waits until this is seen.
    fn wait_for(&mut self, words: &str) {
        let asked = Instant::now();
        while !self.text.contains(words) {
            assert!(asked.elapsed() < Duration::from_secs(60), "`{words}` is not in:\n{}", self.text);
            if let Ok(bytes) = self.seen.recv_timeout(Duration::from_millis(100)) {
                self.text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    fn type_in(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }
}

/// `run MODEL` without a prompt talks; A29: not even a nervous Ctrl-C loses the conversation; A32: history is kept.
#[test]
#[cfg(target_os = "linux")]
fn a_terminal_talks_and_survives_ctrl_c() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut terminal = Terminal::start(home.path(), &endless("run", &model).join(" "));
    terminal.wait_for("/help lists commands");
    terminal.wait_for("> ");
    terminal.type_in("hello\r");
    std::thread::sleep(Duration::from_millis(1500));
    terminal.type_in("\x03\x03\x03");
    terminal.wait_for("stopped; what came of the answer stays");
    std::thread::sleep(Duration::from_millis(500));
    terminal.type_in("/show\r");
    terminal.wait_for("2 messages");
    terminal.type_in("/exit\r");
    assert_eq!(ended(&mut terminal.child), Some(0));
    let history = std::fs::read_to_string(home.path().join(".local/state/menagerie/history")).unwrap();
    assert!(history.contains("hello"), "{history}");
}
