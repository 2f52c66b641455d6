//! Errors, notes and help on standard error, in the style of compilers: the error, its place, the line with a caret, help.
//!
//! Texts from files are escaped here: control characters of a file never reach the terminal. If the last line of an answer
//! is incomplete, the text begins on a new line.

use crate::screen::style::{OutputStream, paint};
use crate::screen::{escape, open_line, style};
use std::io::{self, Write};
use std::path::Path;

/// One error, parsed from an error message.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Finding {
    /// The file, if the error has a line.
    pub(crate) file: Option<String>,
    /// Line, from 1.
    pub(crate) line: Option<usize>,
    /// Column, from 1.
    pub(crate) column: Option<usize>,
    /// A dotted key, or another subject.
    pub(crate) subject: String,
    /// The error.
    pub(crate) message: String,
}

/// Writes text that is already escaped to standard error. Errors of standard error are ignored.
pub(crate) fn write(text: &str) {
    let mut remarks = std::io::stderr().lock();
    let begin = open_line::OF_PROCESS.end();
    let _ = remarks.write_all(format!("{begin}{text}").as_bytes()).and_then(|()| remarks.flush());
}

/// Writes a line to standard error.
pub(crate) fn line(text: &str) {
    write(&format!("{}\n", escape::text(text)));
}

/// Writes an error.
pub(crate) fn error(message: &str) {
    write(&error_text(message, OutputStream::Err.is_colored()));
}

/// Writes a note.
pub(crate) fn note(text: &str) {
    write(&format!("{}\n", note_text(text, OutputStream::Err.is_colored())));
}

/// Writes findings as errors.
pub(crate) fn findings_as_errors(findings: &[Finding]) {
    let mut text = String::new();
    findings.iter().for_each(|finding| finding.write(&mut text, OutputStream::Err.is_colored()));
    write(&text);
}

/// Standard error for log lines, each of which comes in one piece.
pub(crate) struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(&escape::text(&String::from_utf8_lossy(bytes)));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `note: TEXT`.
pub(crate) fn note_text(text: &str, colored: bool) -> String {
    format!("{} {}", paint("note:", style::NOTE, colored), escape::text(text))
}

/// Splits an error message into its errors, sorted by file and line; a message without such a structure is one error.
pub(crate) fn findings(message: &str) -> Vec<Finding> {
    let mut paragraphs: Vec<Vec<&str>> = Vec::new();
    for line in message.lines() {
        match line.strip_prefix("error: ") {
            Some(first) => paragraphs.push(vec![first]),
            None if paragraphs.is_empty() => paragraphs.push(vec![line]),
            None => paragraphs.last_mut().into_iter().for_each(|last| last.push(line)),
        }
    }
    // `the spec of ... cannot be used:` only introduces the errors that follow.
    if paragraphs.len() > 1 && paragraphs[0].len() == 1 && paragraphs[0][0].ends_with(':') {
        paragraphs.remove(0);
    }
    let mut findings: Vec<Finding> = paragraphs.iter().map(|lines| finding(lines)).collect();
    if findings.iter().all(|finding| finding.line.is_some()) {
        findings.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
    }
    findings
}

fn finding(lines: &[&str]) -> Finding {
    let (first, rest) = lines.split_first().map_or(("", lines), |(first, rest)| (*first, rest));
    // `error: FILE: SUBJECT` with the error on the lines below.
    let below = rest.first().is_some_and(|line| line.starts_with("  ")) && !first.ends_with(':');
    let rest: Vec<&str> = rest.iter().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    let Some((file, line, column, subject)) = place(first) else {
        let between = if below { ": " } else { "\n" };
        let message = [first, &rest.join("\n")].join(if rest.is_empty() { "" } else { between });
        return Finding { message, ..Finding::default() };
    };
    let (subject, message) = if rest.is_empty() {
        (String::new(), subject.to_owned())
    } else {
        (subject.to_owned(), rest.join("\n"))
    };
    let file = file.strip_prefix("./").unwrap_or(file);
    Finding { file: Some(file.to_owned()), line: Some(line), column: Some(column), subject, message }
}

/// Parses `FILE:LINE:COLUMN: SUBJECT` at the beginning of a message; text after a colon and a space is quoted text.
fn place(text: &str) -> Option<(&str, usize, usize, &str)> {
    for (colon, _) in text.match_indices(':').take_while(|(colon, _)| !text[..*colon].contains(": ")) {
        let mut parts = text[colon + 1..].splitn(3, ':');
        let number = |part: Option<&str>| part?.parse::<usize>().ok();
        if let (Some(line), Some(column)) = (number(parts.next()), number(parts.next())) {
            return Some((&text[..colon], line, column, parts.next().unwrap_or_default().trim_start()));
        }
    }
    None
}

/// Formats an error message: each error with its place, and help on separate lines.
pub(crate) fn error_text(message: &str, colored: bool) -> String {
    let findings = findings(message);
    let mut text = String::new();
    for finding in &findings {
        finding.write(&mut text, colored);
    }
    if findings.len() > 1 {
        text.push_str(&format!("{} {} errors\n", paint("error:", style::ERROR, colored), findings.len()));
    }
    text
}

impl Finding {
    fn write(&self, text: &mut String, colored: bool) {
        let subject = if self.subject.is_empty() { String::new() } else { format!("{}: ", self.subject) };
        let message = split_advice(&self.message);
        let (subject, message) = (escape::text(&subject), escape::text(&message));
        let mut lines = message.lines();
        let first = lines.next().unwrap_or_default();
        text.push_str(&format!("{} {subject}{first}\n", paint("error:", style::ERROR, colored)));
        if let (Some(file), Some(line), Some(column)) = (&self.file, self.line, self.column) {
            let margin = " ".repeat(line.to_string().len());
            let arrow = paint("-->", style::PLACE, colored);
            text.push_str(&format!("{margin}{arrow} {}:{line}:{column}\n", escape::line(file)));
            text.push_str(&excerpt(file, line, column, colored).unwrap_or_default());
        }
        for line in lines {
            match line.split_once(": ").filter(|(word, _)| matches!(*word, "help" | "note")) {
                Some((word, rest)) => {
                    let style = if word == "help" { style::HELP } else { style::NOTE };
                    text.push_str(&format!("{} {rest}\n", paint(&format!("{word}:"), style, colored)));
                }
                None => text.push_str(&format!("{line}\n")),
            }
        }
    }
}

/// The line of a file with a caret under the word at `column`; `None` if the file cannot be read.
fn excerpt(file: &str, line: usize, column: usize, colored: bool) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(file)).ok()?;
    let (source, column) = shortened(text.lines().nth(line.checked_sub(1)?)?, column);
    let (before, from) = source.split_at_checked(source.char_indices().nth(column.checked_sub(1)?)?.0)?;
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let quoted = from.chars().next().filter(|c| matches!(c, '"' | '\''));
    let width = match quoted {
        // A tag of a template with the rest of the line.
        _ if from.starts_with("{{") || from.starts_with("{%") => from.trim_end().chars().count(),
        Some(quote) => from[1..].find(quote).map_or(from.len(), |end| end + 2),
        None => from.chars().take_while(|&c| is_word(c)).count(),
    };
    // Escapes make the line longer; the caret must be under the escaped text.
    let gap: String = escape::text(before).chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let source = escape::text(&source);
    let number = paint(&line.to_string(), style::PLACE, colored);
    let (margin, bar) = (" ".repeat(line.to_string().len()), paint("|", style::PLACE, colored));
    let caret = paint(&"^".repeat(width.max(1)), style::ERROR, colored);
    Some(format!("{margin} {bar}\n{number} {bar} {source}\n{margin} {bar} {gap}{caret}\n"))
}

/// The part of a line around a column, and the column in it: a file may be one line of megabytes.
fn shortened(source: &str, column: usize) -> (String, usize) {
    const SHOWN: usize = 160;
    if source.chars().count() <= SHOWN {
        return (source.to_owned(), column);
    }
    let first = column.saturating_sub(SHOWN / 2);
    let shown: String = source.chars().skip(first).take(SHOWN).collect();
    if first == 0 { (format!("{shown}..."), column) } else { (format!("...{shown}..."), column - first + 3) }
}

/// Words that begin help at the end of a message: `...; put a spec into a folder`.
const ADVICE: [&str; 35] = [
    "add", "ask", "check", "choose", "compute", "convert", "correct", "create", "download", "fetch", "free",
    "get", "give", "go", "install", "leave", "look", "name", "open", "pass", "put", "quote", "remove",
    "rename", "run", "see", "set", "shorten", "store", "take", "try", "unset", "update", "use", "write",
];

/// Moves help after the last `; ` of a message of one line to a separate line.
fn split_advice(message: &str) -> String {
    if message.contains('\n') {
        return message.to_owned();
    }
    let Some((what, advice)) = message.rsplit_once("; ") else {
        let begun = ["shorten ", "choose "].iter().find_map(|verb| message.find(&format!(": {verb}")));
        let (what, advice) = begun.map_or((message, ""), |at| (&message[..at], &message[at + 2..]));
        return if advice.is_empty() { what.to_owned() } else { format!("{what}\nhelp: {advice}") };
    };
    let first = advice.split(|c: char| c.is_whitespace() || c == ',').next().unwrap_or_default();
    if ADVICE.contains(&first) || first.starts_with("--") || first.starts_with('`') {
        return format!("{what}\nhelp: {advice}");
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_quoted_text_are_no_place() {
        let message = "/etc/passwd: not a GGUF file: a text that begins with 'root:x:0:0:root'";
        assert_eq!(error_text(message, false), format!("error: {message}\n"));
    }

    #[test]
    fn faults_are_sorted_by_line_and_point_at_the_word() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.toml");
        std::fs::write(&file, "schema = 1\n\n[mixer]\nbais = \"none\"\nkind = \"atention\"\n").unwrap();
        let file = file.display();
        let message = format!(
            "the spec of architecture `s` cannot be used:\nerror: {file}:5:8: mixer.kind\n  `atention` is unknown\nerror: {file}:4:1: mixer.bais\n  unknown key; the nearest is `bias`"
        );
        let expected = format!(
            "error: mixer.bais: unknown key; the nearest is `bias`\n --> {file}:4:1\n  |\n4 | bais = \"none\"\n  | ^^^^\n\
             error: mixer.kind: `atention` is unknown\n --> {file}:5:8\n  |\n5 | kind = \"atention\"\n  |        ^^^^^^^^^^\n\
             error: 2 errors\n"
        );
        assert_eq!(error_text(&message, false), expected);
    }

    #[test]
    fn a_fault_of_a_file_without_lines_is_one_line() {
        let message = "error: x.gguf: key llama.block_count\n  missing; spec llama needs it\nerror: x.gguf: tensor a\n  gone";
        assert_eq!(
            error_text(message, false),
            "error: x.gguf: key llama.block_count: missing; spec llama needs it\nerror: x.gguf: tensor a: gone\nerror: 2 errors\n"
        );
    }

    #[test]
    fn help_has_a_line_of_its_own() {
        let text = error_text("x.gguf: it is cut off; download the file again", false);
        assert_eq!(text, "error: x.gguf: it is cut off\nhelp: download the file again\n");
        let text =
            error_text("9 tokens: shorten it by 2, or open the model with a larger context (-c 16)", false);
        assert_eq!(
            text,
            "error: 9 tokens\nhelp: shorten it by 2, or open the model with a larger context (-c 16)\n"
        );
        let text = error_text("a; b; the nearest is `c`", false);
        assert_eq!(text, "error: a; b; the nearest is `c`\n");
    }

    #[test]
    fn of_a_long_line_a_part_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s.json");
        std::fs::write(&file, format!("{}\"word\"{}", "[".repeat(5000), "]".repeat(5000))).unwrap();
        for (column, shown) in [(5001, "[\"word\"]"), (1, "[[["), (10_000, "]]]")] {
            let text = error_text(&format!("error: {}:1:{column}: x\n  y", file.display()), false);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines[3].contains(shown) && lines[3].chars().count() < 200, "{text}");
            let caret = lines[4].chars().position(|c| c == '^').unwrap();
            let at = lines[3].chars().nth(caret).unwrap();
            assert_eq!(at, if column == 5001 { '"' } else { shown.chars().next().unwrap() }, "{text}");
        }
    }

    #[test]
    fn colors_are_there_only_if_wanted() {
        assert!(error_text("x\nhelp: y", true).contains("\x1b["));
        assert!(!error_text("x\nhelp: y", false).contains('\x1b'));
    }
}
