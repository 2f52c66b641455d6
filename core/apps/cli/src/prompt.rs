//! Prompts: from the command line, a file, standard input, or standard input and the command line together.

use crate::failure::Failure;
use crate::interrupt;
use crate::screen::report;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a pipe may be silent before somebody is told that it is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Most bytes of a text that is read whole: no prompt is as long, and what never ends must not take the memory of all.
pub(crate) const LONGEST: u64 = 256 << 20;

/// The prompt of this process; `None` where nothing was given and standard input is a terminal.
///
/// `-` as prompt or file is standard input. A prompt and standard input that is not a terminal are joined: what was
/// piped in, an empty line, the prompt.
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

/// The text of a file, `-` for standard input: UTF-8, without byte order mark and final newline.
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

/// A text that is not read to its end.
pub(crate) fn too_long(from: &str) -> Failure {
    Failure::about(from, format!("more than {} MB of text, if it ends at all", LONGEST / 1_000_000))
        .with_help("no context holds as much: give a part of it")
}

/// The text of standard input.
fn stdin(beside_prompt: bool) -> Result<String, Failure> {
    text(standard_input(beside_prompt)?, "standard input")
}

/// All of standard input; who types hears that it is read, and Ctrl-C ends the process meanwhile.
pub(crate) fn standard_input(beside_prompt: bool) -> Result<Vec<u8>, Failure> {
    if std::io::stdin().is_terminal() {
        report::note("the text is read from the terminal; Ctrl-D ends it");
    }
    let _at_once = interrupt::at_once()?;
    let read = Arc::new(AtomicBool::new(false));
    if beside_prompt {
        let read = Arc::clone(&read);
        std::thread::spawn(move || {
            std::thread::sleep(PATIENCE);
            if !read.load(Ordering::SeqCst) {
                report::note(
                    "waiting for standard input, which is joined to the prompt (< /dev/null leaves it out)",
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

/// The text of these bytes: UTF-8, without byte order mark and one final newline.
fn text(bytes: Vec<u8>, from: &str) -> Result<String, Failure> {
    let text = utf8(bytes, from)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let without = text.strip_suffix("\r\n").or_else(|| text.strip_suffix('\n'));
    Ok(without.unwrap_or(text).to_owned())
}

/// The text of these bytes as it is.
pub(crate) fn utf8(bytes: Vec<u8>, from: &str) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..good].iter().filter(|&&byte| byte == b'\n').count() + 1;
        Failure::about(from, format!("byte {good} (line {line}) is not UTF-8"))
            .with_help("convert it to UTF-8, e.g. with iconv")
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
