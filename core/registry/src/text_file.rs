//! Reading a file of a spec folder, whatever lies under its name: folders are read unasked.

use menagerie_files::path_text;
use std::io::Read;
use std::path::Path;

/// Most bytes that are read of a spec or a table; the largest known table has 25,000.
const MOST_BYTES: u64 = 1 << 20;

/// Why a file has no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoText {
    /// It cannot be read, or is none that ends.
    Unreadable(String),
    /// A byte is not UTF-8.
    NotUtf8 {
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
}

/// Reads a file of moderate length; a pipe or device, which may never end, is refused.
///
/// # Errors
/// [`NoText`].
pub(crate) fn read_text(path: &Path) -> Result<String, NoText> {
    let failed = |error: std::io::Error| NoText::Unreadable(error.to_string());
    // Looked at before it is opened: opening a pipe waits for its writer.
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(NoText::Unreadable("not a regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(NoText::Unreadable(format!(
            "longer than {MOST_BYTES} bytes, which no spec and no table is"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let good =
            String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]).into_owned();
        let last = good.rsplit('\n').next().unwrap_or_default();
        NoText::NotUtf8 { line: good.matches('\n').count() + 1, column: last.chars().count() + 1 }
    })
}

impl NoText {
    /// As a fault of the file, with its place where there is one.
    pub(crate) fn fault(&self, path: &Path) -> String {
        match self {
            Self::Unreadable(reason) => format!("error: {}\n  {reason}", path_text(path)),
            Self::NotUtf8 { line, column } => format!(
                "error: {}:{line}:{column}\n  a byte here is not UTF-8, which TOML must be; convert the file, e.g. with iconv",
                path_text(path)
            ),
        }
    }

    /// In a few words.
    pub(crate) fn words(&self) -> String {
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
    fn what_is_no_text_is_refused_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        std::fs::write(&path, b"a = 1\nb\xc3\xa4\xff").unwrap();
        assert_eq!(read_text(&path), Err(NoText::NotUtf8 { line: 2, column: 3 }));
        assert!(read_text(&path).unwrap_err().fault(&path).contains("x.toml:2:3"));
        assert!(matches!(read_text(folder.path()), Err(NoText::Unreadable(_))));
        let long = std::fs::File::create(&path).unwrap();
        long.set_len(MOST_BYTES + 1).unwrap();
        assert!(read_text(&path).unwrap_err().words().contains("longer than 1048576 bytes"));
    }

    /// A pipe without a writer would be waited for without end.
    #[test]
    #[cfg(unix)]
    fn a_pipe_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("x.toml");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("`mkfifo` is needed for this test").success());
        assert_eq!(read_text(&pipe), Err(NoText::Unreadable("not a regular file".to_owned())));
    }
}
