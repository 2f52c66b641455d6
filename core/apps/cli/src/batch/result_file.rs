//! The lines of result files: that of a batch, and that of lines that are computed again.

use crate::failure::Failure;
use serde_json::Value;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// The result of a line, as far as the next run needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LineResult {
    /// `request_id`: shows whether the line of IN is still the same.
    pub(crate) request: String,
    /// Whether the result is an answer and not an error.
    pub(crate) answered: bool,
}

/// The path of a result file with a suffix.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The id of a result, and its [`LineResult`].
pub(crate) fn line_result(result: &Value) -> Option<(String, LineResult)> {
    let response = &result["response"];
    let request = response["request_id"].as_str()?.to_owned();
    let answered = response["status_code"].as_u64().is_none_or(|status| status < 400);
    Some((result["custom_id"].as_str()?.to_owned(), LineResult { request, answered }))
}

/// Receives a line of a result file with its newline, its id and its [`LineResult`].
type TakeResult<'a> = dyn FnMut(&[u8], String, LineResult) -> Result<(), Failure> + 'a;

/// Passes each complete line of a result file to `take`; returns the size of these lines in bytes.
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
                .with_help("name another file; --force replaces this one"));
        };
        take(&line, id, result)?;
        whole += line.len() as u64;
        line.clear();
    }
    Ok(whole)
}
