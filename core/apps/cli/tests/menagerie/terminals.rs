//! What is typed and seen on a terminal.

use super::hostile::{acts, escaping};
use super::signals::{ended, endless};
use super::{chat_model, menagerie};
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
        Self::start_line(home, &format!("stty -echo; exec {} {arguments}", env!("CARGO_BIN_EXE_menagerie")))
    }

    /// A terminal of so many columns that shows what is typed; a word of the shell line stands for the program.
    fn start_wide(home: &Path, columns: usize, line: &str) -> Self {
        let line = line.replace("MENAGERIE", env!("CARGO_BIN_EXE_menagerie"));
        Self::start_line(home, &format!("stty echo cols {columns} rows 24; {line}"))
    }

    fn start_line(home: &Path, line: &str) -> Self {
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--command", line, "/dev/null"]);
        command.current_dir(home).env("HOME", home).env("SHELL", "/bin/sh").env("TERM", "xterm");
        command.env_remove("NO_COLOR").env("HF_HUB_OFFLINE", "1");
        // Those of the tests: the program would note that it does not read them.
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MENAGERIE_")) {
            command.env_remove(name);
        }
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
        self.wait_until(words, |text| text.contains(words));
    }

    /// Waits until what is seen is enough.
    fn wait_until(&mut self, what: &str, is_seen: impl Fn(&str) -> bool) {
        let asked = Instant::now();
        while !is_seen(&self.text) {
            assert!(asked.elapsed() < Duration::from_secs(60), "`{what}` is not in:\n{}", self.text);
            if let Ok(bytes) = self.seen.recv_timeout(Duration::from_millis(100)) {
                self.text.push_str(&String::from_utf8_lossy(&bytes));
            }
        }
    }

    /// Everything that is seen until the program ends, and its exit code.
    fn read_to_end(&mut self) -> (Option<i32>, &str) {
        let code = ended(&mut self.child);
        while let Ok(bytes) = self.seen.recv_timeout(Duration::from_secs(2)) {
            self.text.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, &self.text)
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
    terminal.wait_for("stopped; the partial answer stays");
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
        terminal.wait_for("reading the text from the terminal; end it with Ctrl-D");
        terminal.type_in("abc\n\x04");
        assert_eq!(ended(&mut terminal.child), Some(0), "{}", terminal.text);
    }
}

/// Notes and errors are colored where a person sees them, unless NO_COLOR is set.
#[test]
fn errors_are_colored_on_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut colored = Terminal::start(home.path(), "show nothing.gguf");
    colored.wait_for("\x1b[1m\x1b[31merror:");
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
    terminal.wait_for("processing the prompt: ");
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

/// What a terminal shows in the end: lines, carriage returns, and sequences that move up or clear a line.
fn screen(text: &str) -> Vec<String> {
    let (mut rows, mut row, mut column) = (vec![String::new()], 0usize, 0usize);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => row += 1,
            '\u{1b}' if rest.peek() == Some(&'[') => {
                let sequence: Vec<char> = rest.by_ref().skip(1).take(1).collect();
                let mut sequence: String = sequence.into_iter().collect();
                while !sequence.ends_with(|c: char| c.is_ascii_alphabetic()) {
                    let Some(next) = rest.next() else { break };
                    sequence.push(next);
                }
                match sequence.split_at(sequence.len().saturating_sub(1)) {
                    (count, "A") => row = row.saturating_sub(count.parse().unwrap_or(1)),
                    ("2", "K") => rows[row].clear(),
                    (_, "K") => rows[row] = rows[row].chars().take(column).collect(),
                    _ => {}
                }
            }
            c => {
                let mut cells: Vec<char> = rows[row].chars().collect();
                cells.resize(cells.len().max(column + 1), ' ');
                cells[column] = c;
                rows[row] = cells.into_iter().collect();
                column += 1;
            }
        }
        rows.resize(rows.len().max(row + 1), String::new());
    }
    rows
}

/// F3: generated text is escaped, and so is a template on its way to a terminal.
#[test]
fn a_terminal_is_not_acted_on() {
    let home = tempfile::tempdir().unwrap();
    let (model, bias) = escaping(home.path());
    let line = format!("exec MENAGERIE run {model} hi -n 3 --temp 0 --logit-bias {bias} --color never");
    let mut terminal = Terminal::start_wide(home.path(), 80, &line);
    terminal.wait_for("\\u{1b}\\u{1b}\\u{1b}");
    let (code, text) = terminal.read_to_end();
    assert_eq!(code, Some(0), "{text}");
    // The bar that says how much of a prompt is read has sequences of its own, and is not drawn for a short one.
    let answer = text.split("\\u{1b}").last().unwrap();
    assert!(!answer.replace('\r', "").contains(acts), "{answer:?}");
    let template = "{{ messages[0].content }}\u{1b}[2J\u{202e}";
    let model = super::Changed::of("base/llama/model-f32.gguf")
        .set("tokenizer.chat_template", template)
        .write(home.path());
    let mut terminal =
        Terminal::start_wide(home.path(), 80, &format!("exec MENAGERIE inspect {model} --template"));
    let (_, text) = terminal.read_to_end();
    assert_eq!(text.trim_end(), "{{ messages[0].content }}\\u{1b}[2J\\u{202e}");
}

/// P24: no generated word is broken at the edge, and a pipe gets the same words.
#[test]
fn generated_words_are_whole_on_a_terminal() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let tokens = menagerie(home.path(), &["tokenize", &model, "the quick brown fox", "--json"]).good();
    let tokens: serde_json::Value = serde_json::from_str(&tokens).unwrap();
    let ids = tokens["tokens"].as_array().unwrap().iter().map(|token| token["id"].as_u64().unwrap());
    let biases: Vec<String> = ids.map(|id| format!("--logit-bias {id}=1000")).collect();
    let options = format!("run {model} --raw hi -n 120 --temp 1 --seed 3 -t 1 {}", biases.join(" "));
    let piped = menagerie(home.path(), &options.split(' ').collect::<Vec<_>>()).good();
    assert!(
        piped.lines().next().unwrap().len() > 80 && piped.split_whitespace().all(|word| word.len() < 50),
        "{piped}"
    );
    let mut terminal =
        Terminal::start_wide(home.path(), 50, &format!("exec MENAGERIE {options} --color never"));
    let (code, text) = terminal.read_to_end();
    assert_eq!(code, Some(0), "{text}");
    let seen = screen(text).join("\n");
    let seen = seen.split("note: ").next().unwrap();
    assert!(seen.lines().count() > 3 && seen.lines().all(|line| line.len() <= 50), "{seen}");
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(seen), words(&piped));
}

/// P24: what is typed ahead does not stand in the answer; it is what the next line begins with.
#[test]
fn what_is_typed_ahead_is_not_echoed_into_the_answer() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let line = format!("exec MENAGERIE chat {model} -n 1500 -c 4096 --temp 0 -t 1 --ignore-eos");
    let mut terminal = Terminal::start_wide(home.path(), 80, &line);
    terminal.wait_for("> ");
    terminal.type_in("hello\r");
    // The answer has begun, and most of it is still to come.
    let begun = |text: &str| text.split_once("hello").is_some_and(|(_, answer)| answer.len() > 150);
    terminal.wait_until("the beginning of an answer", begun);
    terminal.type_in("zebra");
    terminal.wait_for("zebra");
    // Each line that is read begins with the sequence that brackets pasted text.
    let (answered, typed) = terminal.text.rsplit_once("\u{1b}[?2004h").unwrap();
    assert!(!answered.contains("zebra") && typed.contains("zebra"), "{}", terminal.text);
    terminal.type_in("\x15/exit\r");
    assert_eq!(ended(&mut terminal.child), Some(0));
}

/// P24: however the program is left while an answer is written, the terminal shows again what is typed.
#[test]
fn the_echo_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    for interrupts in ["", "\x03", "\x03\x03"] {
        let tokens = if interrupts.is_empty() { 50 } else { 50_000 };
        let line = format!(
            "trap : INT; MENAGERIE run {model} hi -n {tokens} -c 60000 --temp 0 -t 1 --ignore-eos; stty -a; echo end"
        );
        let mut terminal = Terminal::start_wide(home.path(), 80, &line);
        if !interrupts.is_empty() {
            std::thread::sleep(Duration::from_millis(1500));
            terminal.type_in(interrupts);
        }
        terminal.wait_for("rows 24");
        let (_, text) = terminal.read_to_end();
        let settings = text.rsplit_once("rows 24").unwrap().1;
        assert!(settings.split_whitespace().any(|word| word == "echo"), "{interrupts:?}: {settings}");
    }
}

/// U26: Ctrl-C leaves nothing of a bar.
#[test]
fn a_bar_that_is_interrupted_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let model = chat_model(home.path());
    let line = format!("exec MENAGERIE bench {model} -p 512 -n 4000 -c 8192 -r 100 -t 1");
    let mut terminal = Terminal::start_wide(home.path(), 60, &line);
    terminal.wait_for("prompt of 512");
    terminal.type_in("\x03");
    let (code, text) = terminal.read_to_end();
    assert_eq!(code, Some(130), "{text}");
    let left = screen(text).join("\n");
    assert!(!left.contains("prompt of") && !left.contains("warming"), "{left}");
}

/// A41: `list` is as wide as the terminal.
#[test]
fn a_list_fits_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    for columns in [50, 100, 180] {
        let mut terminal = Terminal::start_wide(home.path(), columns, "exec MENAGERIE list");
        let (code, text) = terminal.read_to_end();
        assert_eq!(code, Some(0), "{text}");
        let widest = text.lines().map(|line| line.trim_end().chars().count()).max().unwrap();
        assert!(widest <= columns && widest + 15 > columns, "{columns}: {widest}\n{text}");
    }
}
