//! Errors, notes and help on standard error, as compilers write them: what, where, the line with a caret, what to do.

use crate::style::{self, Stream, paint};
use std::path::Path;

/// One thing that is wrong, taken apart from an error's text.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Finding {
    /// File of the fault, where it has a line.
    pub(crate) file: Option<String>,
    /// Line and column, from 1.
    pub(crate) line: Option<usize>,
    /// Column, from 1.
    pub(crate) column: Option<usize>,
    /// Dotted key, or what is meant.
    pub(crate) subject: String,
    /// What is wrong.
    pub(crate) message: String,
}

/// Writes an error.
pub(crate) fn error(message: &str) {
    eprint!("{}", error_text(message, Stream::Err.is_coloured()));
}

/// Writes a note.
pub(crate) fn note(text: &str) {
    eprintln!("{}", note_text(text, Stream::Err.is_coloured()));
}

/// Writes faults that were taken apart before.
pub(crate) fn findings_as_errors(findings: &[Finding]) {
    let mut text = String::new();
    findings.iter().for_each(|finding| finding.write(&mut text, Stream::Err.is_coloured()));
    eprint!("{text}");
}

/// `note: TEXT`.
pub(crate) fn note_text(text: &str, coloured: bool) -> String {
    format!("{} {text}", paint("note:", style::NOTE, coloured))
}

/// The faults of an error's text, in the order of files and lines; a text without faults is one by itself.
pub(crate) fn findings(message: &str) -> Vec<Finding> {
    let mut paragraphs: Vec<Vec<&str>> = Vec::new();
    for line in message.lines() {
        match line.strip_prefix("error: ") {
            Some(first) => paragraphs.push(vec![first]),
            None if paragraphs.is_empty() => paragraphs.push(vec![line]),
            None => paragraphs.last_mut().into_iter().for_each(|last| last.push(line)),
        }
    }
    // `the spec of ... cannot be used:` only introduces the faults that follow.
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
    let rest: Vec<&str> = rest.iter().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect();
    let Some((file, line, column, subject)) = place(first) else {
        let message = std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n");
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

/// `FILE:LINE:COLUMN: SUBJECT`, taken apart.
fn place(text: &str) -> Option<(&str, usize, usize, &str)> {
    for (colon, _) in text.match_indices(':') {
        let mut parts = text[colon + 1..].splitn(3, ':');
        let number = |part: Option<&str>| part?.parse::<usize>().ok();
        if let (Some(line), Some(column)) = (number(parts.next()), number(parts.next())) {
            return Some((&text[..colon], line, column, parts.next().unwrap_or_default().trim_start()));
        }
    }
    None
}

/// An error with its faults, each with its place, and with advice on lines of its own.
pub(crate) fn error_text(message: &str, coloured: bool) -> String {
    let findings = findings(message);
    let mut text = String::new();
    for finding in &findings {
        finding.write(&mut text, coloured);
    }
    if findings.len() > 1 {
        text.push_str(&format!("{} {} faults\n", paint("error:", style::ERROR, coloured), findings.len()));
    }
    text
}

impl Finding {
    fn write(&self, text: &mut String, coloured: bool) {
        let subject = if self.subject.is_empty() { String::new() } else { format!("{}: ", self.subject) };
        let message = split_advice(&self.message);
        let mut lines = message.lines();
        let first = lines.next().unwrap_or_default();
        text.push_str(&format!("{} {subject}{first}\n", paint("error:", style::ERROR, coloured)));
        if let (Some(file), Some(line), Some(column)) = (&self.file, self.line, self.column) {
            let margin = " ".repeat(line.to_string().len());
            let arrow = paint("-->", style::PLACE, coloured);
            text.push_str(&format!("{margin}{arrow} {file}:{line}:{column}\n"));
            text.push_str(&excerpt(file, line, column, coloured).unwrap_or_default());
        }
        for line in lines {
            match line.split_once(": ").filter(|(word, _)| matches!(*word, "help" | "note")) {
                Some((word, rest)) => {
                    let style = if word == "help" { style::HELP } else { style::NOTE };
                    text.push_str(&format!("{} {rest}\n", paint(&format!("{word}:"), style, coloured)));
                }
                None => text.push_str(&format!("{line}\n")),
            }
        }
    }
}

/// The line of a file with a caret under the word at `column`; `None` where the file cannot be read.
fn excerpt(file: &str, line: usize, column: usize, coloured: bool) -> Option<String> {
    let text = std::fs::read_to_string(Path::new(file)).ok()?;
    let source = text.lines().nth(line.checked_sub(1)?)?;
    let (before, from) = source.split_at_checked(source.char_indices().nth(column.checked_sub(1)?)?.0)?;
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let quoted = from.chars().next().filter(|c| matches!(c, '"' | '\''));
    let width = match quoted {
        Some(quote) => from[1..].find(quote).map_or(from.len(), |end| end + 2),
        None => from.chars().take_while(|&c| is_word(c)).count(),
    };
    let gap: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let number = paint(&line.to_string(), style::PLACE, coloured);
    let (margin, bar) = (" ".repeat(line.to_string().len()), paint("|", style::PLACE, coloured));
    let caret = paint(&"^".repeat(width.max(1)), style::ERROR, coloured);
    Some(format!("{margin} {bar}\n{number} {bar} {source}\n{margin} {bar} {gap}{caret}\n"))
}

/// Words that begin advice at the end of a message: `...; put a spec into a folder`.
const ADVICE: [&str; 32] = [
    "add", "ask", "check", "choose", "compute", "convert", "correct", "download", "fetch", "free", "get",
    "give", "go", "install", "look", "name", "open", "pass", "put", "remove", "rename", "run", "see", "set",
    "shorten", "store", "take", "try", "unset", "update", "use", "write",
];

/// Advice after the last `; ` of a message of one line goes to a line of its own.
fn split_advice(message: &str) -> String {
    let Some((what, advice)) = message.rsplit_once("; ").filter(|_| !message.contains('\n')) else {
        return message.to_owned();
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
             error: 2 faults\n"
        );
        assert_eq!(error_text(&message, false), expected);
    }

    #[test]
    fn advice_has_a_line_of_its_own() {
        let text = error_text("x.gguf: it is cut off; download the file again", false);
        assert_eq!(text, "error: x.gguf: it is cut off\nhelp: download the file again\n");
        let text = error_text("a; b; the nearest is `c`", false);
        assert_eq!(text, "error: a; b; the nearest is `c`\n");
    }

    #[test]
    fn colours_are_there_only_if_wanted() {
        assert!(error_text("x\nhelp: y", true).contains("\x1b["));
        assert!(!error_text("x\nhelp: y", false).contains('\x1b'));
    }
}
