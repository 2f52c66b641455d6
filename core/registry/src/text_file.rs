//! Reads files of spec folders. Some folders are read without a request, so nothing is assumed about the files.

use menagerie_files::path_text;
use std::io::Read;
use std::path::Path;

/// Maximum size of a spec or table in bytes; the largest known table has 25,000.
const MOST_BYTES: u64 = 1 << 20;

/// The reason why a file has no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextFileError {
    /// It cannot be read, is too long, or is not a regular file.
    Unreadable(String),
    /// A byte is not UTF-8.
    NotUtf8 {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
}

/// Reads a file of limited size; refuses pipes and devices, which may never end.
///
/// # Errors
/// [`TextFileError`].
pub(crate) fn read_text(path: &Path) -> Result<String, TextFileError> {
    let failed = |error: std::io::Error| TextFileError::Unreadable(error.to_string());
    // Checked before opening: opening a pipe waits for its writer.
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(TextFileError::Unreadable("not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(TextFileError::Unreadable(format!(
            "longer than {MOST_BYTES} bytes, the limit for specs and tables"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good =
            String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]).into_owned();
        let last = good.rsplit('\n').next().unwrap_or_default();
        TextFileError::NotUtf8 { line: good.matches('\n').count() + 1, column: last.chars().count() + 1 }
    })
}

impl TextFileError {
    /// The fault of the file, with its place if known.
    pub(crate) fn fault(&self, path: &Path) -> String {
        match self {
            Self::Unreadable(reason) => format!("error: {}\n  {reason}", path_text(path)),
            Self::NotUtf8 { line, column } => format!(
                "error: {}:{line}:{column}\n  a byte here is not UTF-8, and TOML files are UTF-8; convert the file, e.g. with iconv",
                path_text(path)
            ),
        }
    }

    /// The reason without the file.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Unreadable(reason) => reason.clone(),
            Self::NotUtf8 { line, column } => format!("not UTF-8 (line {line}, column {column})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_text_are_refused_with_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, b"a = 1\nb\xc3\xa4\xff").unwrap();
        assert_eq!(read_text(&path), Err(TextFileError::NotUtf8 { line: 2, column: 3 }));
        assert!(read_text(&path).unwrap_err().fault(&path).contains("x.toml:2:3"));
        assert!(matches!(read_text(folder.path()), Err(TextFileError::Unreadable(_))));
        let long = std::fs::File::create(&path).unwrap();
        long.set_len(MOST_BYTES + 1).unwrap();
        assert!(read_text(&path).unwrap_err().reason().contains("longer than 1048576 bytes"));
    }

    /// Opening a pipe without a writer would block forever.
    #[test]
    #[cfg(unix)]
    fn pipes_are_refused_without_opening_them() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("x.toml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("`mkfifo` is needed for this test").success());
        assert_eq!(read_text(&pipe), Err(TextFileError::Unreadable("not a regular file".to_owned())));
    }
}
