//! [`BatchInput`]: the lines of a batch, indexed once and read again one by one.

use crate::batch_fault::BatchFault;
use crate::checksum::checksum;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// The most bytes of a line: an endless input must not use all memory.
const LONGEST: u64 = 256 << 20;
/// The `url` of lines that request embeddings.
const VECTORS: &str = "/v1/embeddings";

/// The lines of a batch.
pub struct BatchInput {
    source: Box<dyn InputSource>,
    name: String,
    lines: Vec<LinePlace>,
}

/// A source that can be read more than once.
trait InputSource: Read + Seek + Send {}

impl<T: Read + Seek + Send> InputSource for T {}

/// The place of a request line.
#[derive(Clone, Debug)]
pub struct LinePlace {
    /// Its number in the file, from 1.
    pub number: usize,
    /// Its `custom_id`, or `line-N`.
    pub id: String,
    /// The kind of request.
    pub kind: LineKind,
    /// Checksum of its bytes.
    pub checksum: u64,
    start: u64,
    bytes: usize,
}

/// The kind of a request line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Text, also for a line that cannot be parsed.
    Text,
    /// Embeddings.
    Vectors,
}

impl BatchInput {
    /// Indexes a file; empty lines are skipped.
    ///
    /// # Errors
    /// The file cannot be read, a line is too long, or two lines have the same id.
    pub fn open(path: &Path) -> Result<Self, BatchFault> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| BatchFault::io(&name, &error))?;
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            let reason = "is not a regular file, which IN must be: it is read twice";
            let help = "name a file, or give the lines on standard input (-)";
            return Err(BatchFault::about(&name, reason).with_help(help));
        }
        Self::of(Box::new(file), name)
    }

    /// Indexes bytes, which have this name in errors.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn of_bytes(bytes: Vec<u8>, name: &str) -> Result<Self, BatchFault> {
        Self::of(Box::new(Cursor::new(bytes)), name.to_owned())
    }

    fn of(source: Box<dyn InputSource>, name: String) -> Result<Self, BatchFault> {
        let mut input = Self { source, name, lines: Vec::new() };
        input.look_through()?;
        Ok(input)
    }

    /// Every line, in order.
    pub fn lines(&self) -> &[LinePlace] {
        &self.lines
    }

    /// Whether there is a line of this kind.
    pub fn asks_for(&self, kind: LineKind) -> bool {
        self.lines.iter().any(|line| line.kind == kind)
    }

    /// The value of the line at an index of [`Self::lines`]; `None` if it is not JSON.
    ///
    /// # Errors
    /// The line cannot be read again, or has changed.
    pub fn value(&mut self, index: usize) -> Result<Option<Value>, BatchFault> {
        let line = &self.lines[index];
        let mut bytes = vec![0; line.bytes];
        let read =
            self.source.seek(SeekFrom::Start(line.start)).and_then(|_| self.source.read_exact(&mut bytes));
        let help = "restore its lines and run the same command again: it continues where it stopped";
        let about = |reason: String| BatchFault::about(&self.name, format!("line {} {reason}", line.number));
        read.map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => about("no longer exists: the file has become shorter".to_owned()),
            _ => about(format!("cannot be read again: {error}")),
        })
        .map_err(|failure| failure.with_help(help))?;
        if checksum(&bytes) != line.checksum {
            return Err(about("has changed while the file was read".to_owned()).with_help(help));
        }
        Ok(serde_json::from_slice(&bytes).ok())
    }

    fn look_through(&mut self) -> Result<(), BatchFault> {
        let mut reader = BufReader::with_capacity(1 << 20, &mut self.source);
        let (mut start, mut number, mut line) = (0u64, 0, Vec::new());
        let mut seen: HashMap<String, usize> = HashMap::new();
        loop {
            line.clear();
            let read = (&mut reader).take(LONGEST + 1).read_until(b'\n', &mut line);
            let read = read.map_err(|error| BatchFault::io(&self.name, &error))? as u64;
            if read == 0 {
                return Ok(());
            }
            if read > LONGEST {
                let reason = format!("the text is longer than {} MB", LONGEST / 1_000_000);
                let help = "it does not fit into any context: use a part of it";
                return Err(BatchFault::about(&self.name, reason).with_help(help));
            }
            number += 1;
            // A byte order mark is not part of the first line.
            let mark = if number == 1 && line.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
            let text = line[mark..].trim_ascii_end();
            if !text.trim_ascii().is_empty() {
                let (id, kind) = outline(text, number);
                if let Some(first) = seen.insert(id.clone(), number) {
                    let reason = format!("lines {first} and {number} both have the id {id:?}");
                    return Err(BatchFault::about(&self.name, reason)
                        .with_help("give each line a different custom_id"));
                }
                let place = LinePlace {
                    number,
                    id,
                    kind,
                    checksum: checksum(text),
                    start: start + mark as u64,
                    bytes: text.len(),
                };
                self.lines.push(place);
            }
            start += read;
        }
    }
}

/// The `custom_id` of a line (or its number if it has none) and its kind.
fn outline(text: &[u8], number: usize) -> (String, LineKind) {
    let value: Option<Value> = serde_json::from_slice(text).ok();
    let field = |name| value.as_ref().and_then(|value| value.get(name)).and_then(Value::as_str);
    let id = field("custom_id").map_or_else(|| format!("line-{number}"), str::to_owned);
    let kind = if field("url") == Some(VECTORS) { LineKind::Vectors } else { LineKind::Text };
    (id, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<BatchInput, BatchFault> {
        BatchInput::of_bytes(text.as_bytes().to_vec(), "in.jsonl")
    }

    #[test]
    fn lines_are_found_again_by_place() {
        let mut input =
            of("\u{feff}{\"custom_id\": \"a\"}\r\n\n  \n\"plain\"\nno JSON\n{\"prompt\": 1}").unwrap();
        let ids: Vec<(usize, &str)> =
            input.lines().iter().map(|line| (line.number, line.id.as_str())).collect();
        assert_eq!(ids, [(1, "a"), (4, "line-4"), (5, "line-5"), (6, "line-6")]);
        let values: Vec<Option<Value>> = (0..4).rev().map(|index| input.value(index).unwrap()).collect();
        assert_eq!(values[0], Some(serde_json::json!({ "prompt": 1 })));
        assert_eq!((&values[1], &values[2]), (&None, &Some(Value::String("plain".to_owned()))));
        assert_eq!(values[3], Some(serde_json::json!({ "custom_id": "a" })));
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_reported_with_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in.jsonl");
        std::fs::write(&path, "\"first\"\n\"second\"\n").unwrap();
        let mut input = BatchInput::open(&path).unwrap();
        std::fs::write(&path, "\"first\"\n\"sechnd\"\n").unwrap();
        assert!(input.value(0).is_ok());
        let said = input.value(1).unwrap_err().to_string();
        assert!(said.contains("in.jsonl: line 2 has changed") && said.contains("continues where"), "{said}");
        std::fs::write(&path, "\"first\"\n").unwrap();
        let said = input.value(1).unwrap_err().to_string();
        assert!(said.contains("line 2 no longer exists") && said.contains("help: "), "{said}");
    }

    #[test]
    fn an_id_that_occurs_twice_is_refused() {
        for text in
            ["{\"custom_id\": \"a\"}\n\n{\"custom_id\": \"a\"}\n", "{\"custom_id\": \"line-2\"}\n\"x\"\n"]
        {
            let said = of(text).map(drop).unwrap_err().to_string();
            assert!(said.contains("both have the id") && said.contains("in.jsonl"), "{said}");
        }
    }
}
