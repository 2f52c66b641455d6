//! The lines of result files: that of a batch, and that of lines that are computed again.

use crate::batch_fault::BatchFault;
use crate::batch_input::LinePlace;
use crate::body::LineFault;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

/// The result of a line, as far as the next run needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineResult {
    /// `request_id`: shows whether the line of IN is still the same.
    pub request: String,
    /// Whether the result is an answer and not an error.
    pub answered: bool,
}

/// The path of a result file with a suffix.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl LineResult {
    /// The id of a result, and what the next run needs of it; `None` if it is not a result.
    pub fn of(result: &Value) -> Option<(String, Self)> {
        let response = &result["response"];
        let request = response["request_id"].as_str()?.to_owned();
        let answered = response["status_code"].as_u64().is_none_or(|status| status < 400);
        Some((result["custom_id"].as_str()?.to_owned(), Self { request, answered }))
    }
}

/// Receives a line of a result file with its newline, its id and its [`LineResult`].
type TakeResult<'a> = dyn FnMut(&[u8], String, LineResult) -> Result<(), BatchFault> + 'a;

/// Passes each complete line of a result file to `take`; returns the size of these lines in bytes.
pub(crate) fn each_result(
    mut reader: impl BufRead,
    name: &str,
    take: &mut TakeResult<'_>,
) -> Result<u64, BatchFault> {
    let (mut whole, mut number, mut line) = (0u64, 0, Vec::new());
    while reader.read_until(b'\n', &mut line).map_err(|error| BatchFault::io(name, &error))? > 0 {
        if line.last() != Some(&b'\n') {
            break;
        }
        number += 1;
        let value: Option<Value> = serde_json::from_slice(&line).ok();
        let Some((id, result)) = value.as_ref().and_then(LineResult::of) else {
            return Err(BatchFault::about(name, format!("line {number} is not a result of a batch"))
                .with_help("name another file; --force replaces this one"));
        };
        take(&line, id, result)?;
        whole += line.len() as u64;
        line.clear();
    }
    Ok(whole)
}

/// The `request_id` of a line: shows whether an answered line is still the same.
pub fn request_id(place: &LinePlace) -> String {
    format!("req_{:016x}", place.checksum)
}

/// The result line of an error.
pub fn fault_line(place: &LinePlace, fault: &LineFault) -> Value {
    let kind = if fault.status == 400 { "invalid_request_error" } else { "server_error" };
    let error = json!({ "message": fault.message, "type": kind, "param": fault.field, "code": null });
    result_line(place, fault.status, json!({ "error": error }))
}

/// A result line.
pub fn result_line(place: &LinePlace, status: u16, body: Value) -> Value {
    json!({
        "id": format!("batch_req_{}", place.number),
        "custom_id": place.id,
        "response": { "status_code": status, "request_id": request_id(place), "body": body },
        "error": null,
    })
}

/// Copies the complete lines of a result file: answers to the first output, failures to the second one.
///
/// # Errors
/// A file cannot be read or written, or is not a result file.
pub fn split_results(path: &Path, outputs: [&mut dyn Write; 2]) -> Result<(), BatchFault> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|error| BatchFault::io(&name, &error))?;
    let [answers, failures] = outputs;
    let copy = &mut |line: &[u8], _: String, result: LineResult| {
        let output = if result.answered { &mut *answers } else { &mut *failures };
        output.write_all(line).map_err(|error| BatchFault::io(&name, &error))
    };
    each_result(BufReader::new(file), &name, copy).map(drop)
}
