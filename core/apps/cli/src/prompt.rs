//! Prompts from the command line, a file, standard input, or standard input and the command line together.

use crate::failure::Failure;
use crate::interrupt;
use crate::screen::report;
use serde_json::Value;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Time without input from a pipe after which a note is printed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Maximum size of a text in bytes: no prompt is as long, and an endless input must not use all memory.
pub(crate) const LONGEST: u64 = 256 << 20;

/// The prompt of this process; `None` if none is given and standard input is a terminal.
///
/// `-` as prompt or file is standard input. If there is a prompt and standard input is not a terminal, the piped text is
/// placed before the prompt, separated by an empty line.
pub(crate) fn of_process(prompt: Option<&str>, file: Option<&Path>) -> Result<Option<String>, Failure> {
    if let Some(file) = file {
        return read_file(file).map(Some);
    }
    match prompt {
        Some("-") => stdin(false).map(Some),
        Some(prompt) if std::io::stdin().is_terminal() => Ok(Some(prompt.to_owned())),
        Some(prompt) => Ok(Some(join(&stdin(true)?, prompt))),
        None if std::io::stdin().is_terminal() => Ok(None),
        None => stdin(false).map(Some),
    }
}

/// The text of a file (`-` for standard input): UTF-8, without a byte order mark and one trailing newline.
pub(crate) fn read_file(file: &Path) -> Result<String, Failure> {
    if file.as_os_str() == "-" {
        return stdin(false);
    }
    text(read_bytes(file)?, &file.display().to_string())
}

/// All bytes of a file.
pub(crate) fn read_bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let from = file.display().to_string();
    let opened = std::fs::File::open(file).map_err(|error| Failure::about(&from, error))?;
    bounded(opened, &from)
}

fn bounded(input: impl Read, from: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    input.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| Failure::about(from, error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(too_long(from));
    }
    Ok(bytes)
}

/// The error for a text that is too long.
pub(crate) fn too_long(from: &str) -> Failure {
    Failure::about(from, format!("the text is longer than {} MB", LONGEST / 1_000_000))
        .with_help("it does not fit into any context: use a part of it")
}

/// The text of standard input.
fn stdin(beside_prompt: bool) -> Result<String, Failure> {
    text(standard_input(beside_prompt)?, "standard input")
}

/// All bytes of standard input. On a terminal a note is printed first; Ctrl-C ends the process while it reads.
pub(crate) fn standard_input(beside_prompt: bool) -> Result<Vec<u8>, Failure> {
    if std::io::stdin().is_terminal() {
        report::note("reading the text from the terminal; end it with Ctrl-D");
    }
    let _at_once = interrupt::at_once()?;
    let read = Arc::new(AtomicBool::new(false));
    if beside_prompt {
        let read = Arc::clone(&read);
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            if !read.load(Ordering::SeqCst) {
                report::note(
                    "waiting for standard input, which is added to the prompt (use < /dev/null to skip it)",
                );
            }
        });
    }
    let bytes = bounded(std::io::stdin(), "standard input");
    read.store(true, Ordering::SeqCst);
    bytes
}

fn join(piped: &str, prompt: &str) -> String {
    if piped.is_empty() { prompt.to_owned() } else { format!("{piped}\n\n{prompt}") }
}

/// The text of these bytes: UTF-8, without a byte order mark and one trailing newline.
fn text(bytes: Vec<u8>, from: &str) -> Result<String, Failure> {
    let text = utf8(bytes, from)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let without = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
    Ok(without.unwrap_or(text).to_owned())
}

/// The text of these bytes, unchanged.
pub(crate) fn utf8(bytes: Vec<u8>, from: &str) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|&&byte| byte == b'\n').count() + 1;
        Failure::about(from, format!("byte {good} (line {line}) is not UTF-8"))
            .with_help("convert it to UTF-8, e.g. with iconv")
    })
}

/// The JSON in the text of a file.
pub(crate) fn json(text: &str, file: &Path) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Failure::Failed(format!("error: {}:{line}:{column}: not JSON\n  {error}", file.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_final_newline_and_a_mark_are_dropped() {
        for (bytes, expected) in [
            ("What is 2+2?\n", "What is 2+2?"),
            ("What is 2+2?\r\n", "What is 2+2?"),
            ("two\n\n", "two\n"),
            ("\u{feff}marked", "marked"),
            ("\n", ""),
            ("plain", "plain"),
        ] {
            assert_eq!(text(bytes.into(), "f").unwrap(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_named() {
        let failure = format!("{:?}", text(b"ab\nc\xff".to_vec(), "f.txt").unwrap_err());
        assert!(failure.contains("f.txt: byte 4 (line 2) is not UTF-8"), "{failure}");
    }
}
