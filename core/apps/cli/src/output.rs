//! Standard output: text, JSON and tables; a reader that goes away ends the command quietly.

use crate::failure::Failure;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// Writes text as it is and flushes.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    write_to(&mut std::io::stdout().lock(), text)
}

/// Writes text to a stream and flushes.
pub(crate) fn write_to(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Output(format!("standard output: {error}")),
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
    write(&table_text(heads, rows))
}

/// Rows in columns as wide as their widest cell.
pub(crate) fn table_text(heads: &[&str], rows: &[Vec<String>]) -> String {
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
    text
}

/// `1234567` as `1.23 MB`.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::DecimalBytes(count).to_string()
}

/// `1 file`, `3 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
