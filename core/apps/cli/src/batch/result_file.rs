//! Files of results, line by line: those of a batch, and those of lines that are computed again.

use crate::failure::Failure;
use serde_json::Value;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// A line that has a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineResult {
    /// `request_id`: tells whether the line of IN is still the same.
    pub(crate) request: String,
    /// Whether the result is an answer, not an error.
    pub(crate) answered: bool,
}

/// A file that belongs to a file of results.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The id of a result, and what it says of its line.
pub(crate) fn line_result(result: &Value) -> Option<(String, LineResult)> {
    let response = &result["response"];
    let request = response["request_id"].as_str()?.to_owned();
    let answered = response["status_code"].as_u64().is_none_or(|status| status < 400);
    Some((result["custom_id"].as_str()?.to_owned(), LineResult { request, answered }))
}

/// Takes a line of a file of results with its newline, its id and what it says.
type TakeResult<'a> = dyn FnMut(&[u8], String, LineResult) -> Result<(), Failure> + 'a;

/// Hands over each whole line of a file of results, its newline included, with its id; gives the bytes of them all.
pub(crate) fn each_result(
    mut reader: impl BufRead,
    name: &str,
    take: &mut TakeResult<'_>,
) -> Result<u64, Failure> {
    let (mut whole, mut number, mut line) = (0u64, 0, Vec::new());
    while reader.read_until(b'\n', &mut line).map_err(|error| Failure::about(name, error))? > 0 {
        if line.last() != Some(&b'\n') {
            break;
        }
        number += 1;
        let value: Option<Value> = serde_json::from_slice(&line).ok();
        let Some((id, result)) = value.as_ref().and_then(line_result) else {
            return Err(Failure::about(name, format!("line {number} is not a result of a batch"))
                .with_help("name another file; --force begins this one anew"));
        };
        take(&line, id, result)?;
        whole += line.len() as u64;
        line.clear();
    }
    Ok(whole)
}
