//! The lines of a batch, from a file or standard input.

use crate::failure::Failure;
use crate::prompt;
use menagerie_openai::BatchInput;
use std::path::Path;

/// Indexes a file, `-` for standard input; empty lines are skipped.
///
/// # Errors
/// The file cannot be read, a line is too long, or two lines have the same id.
pub(crate) fn open_input(path: &Path) -> Result<BatchInput, Failure> {
    match path.as_os_str() == "-" {
        true => Ok(BatchInput::of_bytes(prompt::standard_input(false)?, "standard input")?),
        false => Ok(BatchInput::open(path)?),
    }
}
