//! Input of a conversation: a line editor on a terminal, otherwise plain standard input.

use crate::chat::message::{is_unfinished, message};
use crate::chat::slash_commands::COMMANDS;
use crate::failure::Failure;
use crate::prompt::LONGEST;
use crate::screen::report;
use crate::{interrupt, prompt};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use std::io::{BufRead, IsTerminal, Read};
use std::path::PathBuf;

/// Maximum number of entries in the history file.
const HISTORY: usize = 2000;

/// An input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChatInput {
    /// A message of one or more lines, or a command.
    Text(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// End of input.
    End,
}

/// A source of messages.
pub(crate) enum ChatLines {
    /// A terminal.
    Editor {
        /// The editor.
        editor: Box<Editor<EditorHelper, FileHistory>>,
        /// The history file.
        history: Option<PathBuf>,
    },
    /// A file or a pipe.
    Plain(Box<dyn BufRead>),
}

impl ChatLines {
    /// The input of this process; `keep` enables the history file.
    pub(crate) fn of_process(keep: bool) -> Result<Self, Failure> {
        if !std::io::stdin().is_terminal() {
            return Ok(Self::Plain(Box::new(std::io::stdin().lock())));
        }
        let config = Config::builder().max_history_size(HISTORY)?.history_ignore_dups(true)?.build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(EditorHelper));
        let history = history_file(|name| std::env::var_os(name).map(PathBuf::from)).filter(|_| keep);
        if let Some(file) = history.as_ref().filter(|file| file.exists())
            && let Err(error) = editor.load_history(file)
        {
            report::note(&format!("cannot read the history in {}: {error}", file.display()));
        }
        Ok(Self::Editor { editor: Box::new(editor), history })
    }

    /// The next message.
    pub(crate) fn next(&mut self) -> Result<ChatInput, Failure> {
        match self {
            Self::Plain(input) => {
                // Nothing is lost if Ctrl-C ends the process while it waits for input.
                let _at_once = interrupt::at_once()?;
                plain(input.as_mut())
            }
            Self::Editor { editor, history } => edited(editor, history),
        }
    }
}

/// Reads a message from the editor; continuation lines have their own prompt.
fn edited(
    editor: &mut Editor<EditorHelper, FileHistory>,
    history: &mut Option<PathBuf>,
) -> Result<ChatInput, Failure> {
    let mut text = match typed(editor, "> ")? {
        Ok(text) => text,
        Err(error) => return without_line(error),
    };
    while is_unfinished(&text) {
        match typed(editor, "... ")? {
            Ok(more) => {
                text.push('\n');
                text.push_str(&more);
            }
            Err(ReadlineError::Eof) => break,
            Err(error) => return without_line(error),
        }
    }
    if !text.trim().is_empty() && editor.add_history_entry(&text)? {
        keep(editor, history);
    }
    Ok(ChatInput::Text(message(&text)))
}

/// The input for an error of the editor.
fn without_line(error: ReadlineError) -> Result<ChatInput, Failure> {
    match error {
        ReadlineError::Interrupted => Ok(ChatInput::Interrupted),
        ReadlineError::Eof => Ok(ChatInput::End),
        error => Err(error.into()),
    }
}

fn plain(input: &mut dyn BufRead) -> Result<ChatInput, Failure> {
    let mut text = String::new();
    loop {
        let mut line = Vec::new();
        let room = LONGEST.saturating_sub(text.len() as u64);
        let read = (&mut *input).take(room).read_until(b'\n', &mut line);
        let read = read.map_err(|error| Failure::about("standard input", error))?;
        if read as u64 == room {
            return Err(prompt::too_long("standard input"));
        }
        let line = prompt::utf8(line, "standard input")?;
        text.push_str(line.trim_end_matches(['\n', '\r']));
        match read {
            0 if text.is_empty() => return Ok(ChatInput::End),
            0 => return Ok(ChatInput::Text(message(&text))),
            _ if !is_unfinished(&text) => return Ok(ChatInput::Text(message(&text))),
            _ => text.push('\n'),
        }
    }
}

/// Reads a line from the editor. The conversation is saved already, so signals may end the process meanwhile.
fn typed(
    editor: &mut Editor<EditorHelper, FileHistory>,
    prompt: &str,
) -> Result<Result<String, ReadlineError>, Failure> {
    let _ended_at_once = interrupt::typing()?;
    Ok(editor.readline(prompt))
}

/// Appends an entry to the history file, which only its user can read; after an error the history is disabled.
fn keep(editor: &mut Editor<EditorHelper, FileHistory>, history: &mut Option<PathBuf>) {
    let Some(file) = history else { return };
    let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
    let kept = folder.map_err(ReadlineError::from).and_then(|()| editor.append_history(file));
    if let Err(error) = kept {
        report::note(&format!("cannot write the history in {}: {error}", file.display()));
        *history = None;
    }
}

/// `menagerie/history` in `$XDG_STATE_HOME`, else `~/.local/state`.
fn history_file(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
    let folder = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(folder.join("menagerie").join("history"))
}

/// The editor's helper: it completes commands.
pub(crate) struct EditorHelper;

impl Validator for EditorHelper {}

impl Completer for EditorHelper {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let names = COMMANDS.iter().map(|(name, _, _)| *name);
        let fitting = names.filter(|name| typed.starts_with('/') && name.starts_with(typed));
        Ok((0, fitting.map(str::to_owned).collect()))
    }
}

impl Hinter for EditorHelper {
    type Hint = String;
}

impl Highlighter for EditorHelper {}

impl Helper for EditorHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_messages_may_have_several_lines() {
        let text = "one\n\"\"\"\ntwo\nthree\n\"\"\"\nfour \\\nfive\nlast";
        let mut lines = ChatLines::Plain(Box::new(text.as_bytes()));
        let mut next = || lines.next().unwrap();
        for expected in ["one", "two\nthree", "four \nfive", "last"] {
            assert_eq!(next(), ChatInput::Text(expected.to_owned()));
        }
        assert_eq!(next(), ChatInput::End);
    }

    #[test]
    fn the_history_is_there_the_next_time() {
        let folder = tempfile::tempdir().unwrap();
        let mut history = Some(folder.path().join("deep/history"));
        let open = || Editor::<EditorHelper, FileHistory>::with_config(Config::default()).unwrap();
        let mut first = open();
        first.add_history_entry("two\nlines").unwrap();
        keep(&mut first, &mut history);
        let mut second = open();
        second.load_history(history.as_ref().unwrap()).unwrap();
        assert_eq!(second.history().iter().collect::<Vec<_>>(), ["two\nlines"]);
    }
}
