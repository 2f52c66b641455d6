//! What is typed and seen on a terminal.

use super::chat_model;
use super::signals::{ended, endless};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What is typed and seen on a terminal, by way of `script` of util-linux.
struct Terminal {
    child: Child,
    seen: std::sync::mpsc::Receiver<Vec<u8>>,
    text: String,
}

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

/// The contents of a saved conversation's user messages.
fn said(home: &Path) -> Vec<String> {
    let saved = std::fs::read_to_string(home.join("s.json")).unwrap();
    let messages: Vec<serde_json::Value> = serde_json::from_str(&saved).unwrap();
    let users = messages.iter().filter(|one| one["role"] == "user");
    users.map(|one| one["content"].as_str().unwrap().to_owned()).collect()
}

/// A31, P24: what is pasted without brackets, or typed while an answer comes, is what is said next.
#[test]
fn nothing_typed_is_lost() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let arguments = format!("chat {model} -n 6 --temp 0 --ignore-eos");
    let mut terminal = Terminal::start(home.path(), &arguments);
    terminal.wait_for("/help lists commands");
    terminal.wait_for("> ");
    terminal.type_in("one\rtwo\rthree\r/save s.json\r");
    terminal.wait_for("saved 6 messages");
    assert_eq!(said(home.path()), ["one", "two", "three"]);
    terminal.type_in("/exit\r");
    assert_eq!(ended(&mut terminal.child), Some(0));
}

/// P20: who types hears that a text is wanted, also where `-` says so.
#[test]
fn a_text_from_the_terminal_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    for command in ["tokenize", "run"] {
        let more = if command == "run" { "- -n 2 --raw" } else { "" };
        let mut terminal = Terminal::start(home.path(), &format!("{command} {model} {more}"));
        terminal.wait_for("the text is read from the terminal; Ctrl-D ends it");
        terminal.type_in("abc\n\x04");
        assert_eq!(ended(&mut terminal.child), Some(0), "{}", terminal.text);
    }
}

/// Notes and errors are coloured where a person sees them, unless NO_COLOR is set.
#[test]
fn errors_are_coloured_on_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut coloured = Terminal::start(home.path(), "show nothing.gguf");
    coloured.wait_for("\x1b[1m\x1b[31merror:");
    let mut plain = Terminal::start(home.path(), "show nothing.gguf --color never");
    plain.wait_for("error: nothing.gguf");
}

/// A8: a long prompt is not a blank screen.
#[test]
fn a_long_prompt_is_counted() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    std::fs::write(home.path().join("long.txt"), "word ".repeat(2000)).unwrap();
    let arguments = format!("run {model} -f long.txt --raw -n 1 -c 16384 --chunk 64 -t 1");
    let mut terminal = Terminal::start(home.path(), &arguments);
    terminal.wait_for("reading the prompt: ");
    terminal.type_in("\x03");
    assert_eq!(ended(&mut terminal.child), Some(130));
}

/// Who types several lines sees that the message is not at its end.
#[test]
fn further_lines_have_a_prompt() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let mut terminal = Terminal::start(home.path(), &format!("chat {model} -n 2 --temp 0"));
    terminal.wait_for("> ");
    terminal.type_in("\"\"\"\r");
    terminal.wait_for("... ");
    terminal.type_in("one\rtwo\"\"\"\r");
    std::thread::sleep(Duration::from_millis(1500));
    terminal.type_in("three \\\r");
    std::thread::sleep(Duration::from_millis(500));
    terminal.type_in("four\r/save s.json\r");
    terminal.wait_for("saved 4 messages");
    assert_eq!(said(home.path()), ["one\ntwo", "three \nfour"]);
    terminal.type_in("/exit\r");
    assert_eq!(ended(&mut terminal.child), Some(0));
}
