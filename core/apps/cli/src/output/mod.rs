//! Standard output: listings, data, JSON and tables. If the reader closes it, the command ends without an error.

pub(crate) mod answer_stream;
pub(crate) mod fitted_table;
pub(crate) mod output_file;

use crate::failure::Failure;
use crate::screen::style::OutputStream;
use crate::screen::{escape, report};
use serde::Serialize;
use serde_json::Value;
use std::io::{ErrorKind, Write};
use unicode_width::UnicodeWidthStr;

/// Writes a listing: text for people that may contain text from files. Control characters are escaped.
pub(crate) fn write(text: &str) -> Result<(), Failure> {
    painted(&escape::text(text))
}

/// Writes text for programs: unchanged, except on a terminal, where control characters are escaped.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    if OutputStream::Out.is_terminal() { write(text) } else { painted(text) }
}

/// Writes a line of [`data`].
pub(crate) fn data_line(text: &str) -> Result<(), Failure> {
    data(&format!("{text}\n"))
}

/// Writes JSON: unchanged, except on a terminal, where control characters in strings are escaped.
pub(crate) fn json_text(text: &str) -> Result<(), Failure> {
    if OutputStream::Out.is_terminal() { painted(&escape::json(text)) } else { painted(text) }
}

/// Writes text that is already escaped and may have colors.
pub(crate) fn painted(text: &str) -> Result<(), Failure> {
    write_to(&mut std::io::stdout().lock(), text)
}

/// Writes text to a stream and flushes.
pub(crate) fn write_to(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Output(format!("standard output: {error}")),
    })
}

/// Writes a line of a listing.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    write(&format!("{text}\n"))
}

/// Version of the JSON that commands print: it grows when a key is renamed or removed, or its meaning changes.
const SCHEMA: u32 = 1;

/// The JSON output of a command: an object with the version first.
#[derive(Serialize)]
struct VersionedJson<'a, T> {
    schema: u32,
    #[serde(flatten)]
    value: &'a T,
}

/// Writes an object as indented JSON, starting with `"schema": 1`. Lists of plain values stay on one line, because an
/// embedding has hundreds of numbers.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let document = serde_json::to_value(VersionedJson { schema: SCHEMA, value })?;
    json_text(&(indented(&document, 0)? + "\n"))
}

/// An f32 as the f64 with the same shortest decimal form: JSON has 0.1, not 0.10000000149011612.
pub(crate) fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}

/// JSON indented by two spaces for each level.
fn indented(value: &Value, level: usize) -> Result<String, Failure> {
    let (open, close, items): (_, _, Vec<String>) = match value {
        Value::Object(object) if !object.is_empty() => {
            let item = |(key, value): (&String, &Value)| {
                Ok(format!("{}: {}", serde_json::to_string(key)?, indented(value, level + 1)?))
            };
            ('{', '}', object.iter().map(item).collect::<Result<_, Failure>>()?)
        }
        Value::Array(list) if list.iter().any(|one| one.is_object() || one.is_array()) => {
            let items = list.iter().map(|one| indented(one, level + 1));
            ('[', ']', items.collect::<Result<_, Failure>>()?)
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(ToString::to_string).collect();
            return Ok(format!("[{}]", items.join(", ")));
        }
        other => return Ok(other.to_string()),
    };
    let (inner, outer) = ("  ".repeat(level + 1), "  ".repeat(level));
    Ok(format!("{open}\n{inner}{}\n{outer}{close}", items.join(&format!(",\n{inner}"))))
}

/// Writes a note as part of a listing.
pub(crate) fn note(text: &str) -> Result<(), Failure> {
    painted(&(report::note_text(text, OutputStream::Out.is_colored()) + "\n"))
}

/// Writes an error as part of a listing.
pub(crate) fn error(message: &str) -> Result<(), Failure> {
    painted(&report::error_text(message, OutputStream::Out.is_colored()))
}

/// Writes rows in columns as wide as their widest cell.
pub(crate) fn table(heads: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    painted(&table_text(heads, rows))
}

/// Rows in columns as wide as their widest cell; each cell is one line.
pub(crate) fn table_text(heads: &[&str], rows: &[Vec<String>]) -> String {
    let heads: Vec<String> = heads.iter().map(ToString::to_string).collect();
    let cells = |row: &Vec<String>| row.iter().map(|cell| escape::line(cell).into_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&heads).chain(rows).map(cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let padded: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| padded(cell, *width)).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A cell padded with spaces to a width in terminal columns, not characters.
fn padded(cell: &str, width: usize) -> String {
    format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())))
}

/// Writes a name and its value, which is one line.
pub(crate) fn value(name: &str, value: &str) -> Result<(), Failure> {
    line(&format!("  {name:<14} {}", escape::line(value)))
}

/// `1234567` as `1.23 MB`.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::DecimalBytes(count).to_string()
}

/// `1 file`, `3 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_32_bits_are_short_and_the_same() {
        for value in [0.1f32, -1.0 / 3.0, 1e-30, f32::MAX, f32::MIN_POSITIVE, 0.0, 16_777_217.0] {
            let text = serde_json::json!(shortest(value)).to_string();
            assert_eq!(text.parse::<f32>().unwrap(), value, "{text}");
        }
        assert_eq!(serde_json::json!(shortest(0.1)).to_string(), "0.1");
        assert!(serde_json::json!(shortest(f32::NAN)).is_null());
    }

    #[test]
    fn json_is_indented_and_lists_of_numbers_are_not() {
        let value = serde_json::json!({
            "schema": 1, "a": [1, 2.5, "x\n"], "b": [[1, 2], []], "c": {}, "d": [{ "e": null }],
        });
        let text = indented(&value, 0).unwrap();
        let expected = r#"{
  "schema": 1,
  "a": [1, 2.5, "x\n"],
  "b": [
    [1, 2],
    []
  ],
  "c": {},
  "d": [
    {
      "e": null
    }
  ]
}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
