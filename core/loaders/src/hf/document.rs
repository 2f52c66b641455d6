//! [`Document`]: an optional small JSON file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::loader::LoadError;

/// Maximum size of a file, in bytes; a vocabulary of 250,000 tokens takes 35 MB.
const LONGEST: u64 = 512 << 20;

/// An object and the file that contains it.
#[derive(Debug)]
pub(super) struct Document {
    path: PathBuf,
    value: Option<Value>,
}

impl Document {
    /// Reads a file; a missing file gives an empty object.
    ///
    /// # Errors
    /// The file cannot be read, or does not contain an object.
    pub(super) fn read(path: &Path) -> Result<Self, LoadError> {
        if !path.exists() {
            return Ok(Self { path: path.to_owned(), value: None });
        }
        let value: Value =
            serde_json::from_str(&text(path)?).map_err(|error| damaged(path, &error.to_string()))?;
        match value {
            Value::Object(_) => Ok(Self { path: path.to_owned(), value: Some(value) }),
            _ => Err(damaged(path, "expected an object")),
        }
    }

    pub(super) fn exists(&self) -> bool {
        self.value.is_some()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A field, if it exists and is not null.
    pub(super) fn get(&self, field: &str) -> Option<&Value> {
        self.value.as_ref()?.get(field).filter(|value| !value.is_null())
    }

    /// A flag, if it exists.
    ///
    /// # Errors
    /// The field is not a boolean.
    pub(super) fn flag(&self, field: &str) -> Result<Option<bool>, LoadError> {
        let read = |value: &Value| value.as_bool().ok_or_else(|| self.wrong(field, "true or false"));
        self.get(field).map(read).transpose()
    }

    /// The error for a field of an unexpected type.
    pub(super) fn wrong(&self, field: &str, expected: &str) -> LoadError {
        damaged(&self.path, &format!("`{field}`: expected {expected}"))
    }
}

fn damaged(path: &Path, problem: &str) -> LoadError {
    LoadError::Folder {
        file: path.display().to_string(),
        problem: problem.to_owned(),
        advice: "the file is damaged; download it again".to_owned(),
    }
}

/// The text of a file.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or is too long.
pub(super) fn text(path: &Path) -> Result<String, LoadError> {
    String::from_utf8(bytes(path)?).map_err(|error| damaged(path, &error.utf8_error().to_string()))
}

/// The bytes of a file.
///
/// # Errors
/// The file cannot be read, or is too long.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |problem: String| LoadError::Folder {
        file: path.display().to_string(),
        problem,
        advice: "check that the file is readable, or download it again".to_owned(),
    };
    if !path.is_file() {
        return Err(failed("not a regular file".to_owned()));
    }
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    match bytes.len() as u64 > LONGEST {
        true => Err(failed(format!("longer than {} MiB", LONGEST >> 20))),
        false => Ok(bytes),
    }
}
