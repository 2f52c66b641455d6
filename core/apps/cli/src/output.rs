//! Standard output: text, JSON and tables; a reader that goes away ends the command quietly.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{ErrorKind, IsTerminal, Write};

/// Writes text as it is and flushes.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::about("standard output", error),
    })
}

/// Writes a line.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    write(&format!("{text}\n"))
}

/// Writes a value as indented JSON.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    line(&serde_json::to_string_pretty(value)?)
}

/// Writes rows in columns as wide as their widest cell.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    for row in std::iter::once(&heads).chain(rows) {
        let padded: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    write(&text)
}

/// Text set apart: dim on a terminal that wants colour, as it is elsewhere.
pub(crate) fn dim(text: &str) -> String {
    let wanted = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    if wanted { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}
