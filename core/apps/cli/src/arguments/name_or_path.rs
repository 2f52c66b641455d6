//! [`NameOrPath`]: an argument that is a name or a path, as it was typed.

use menagerie::files::path_text;
use serde::{Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// A model, an architecture or a file. A path need not be UTF-8; it is shown escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameOrPath(OsString);

impl NameOrPath {
    /// The argument as a path.
    pub(crate) fn path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The argument as a name; `None` if it can only be a path.
    pub(crate) fn name(&self) -> Option<&str> {
        self.0.to_str()
    }
}

impl From<OsString> for NameOrPath {
    fn from(typed: OsString) -> Self {
        Self(typed)
    }
}

impl From<&str> for NameOrPath {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for NameOrPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&path_text(self.path()))
    }
}

impl Serialize for NameOrPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Splits `PATH=NUMBER` at its last equals sign; `None` if there is none, or if a file has the whole text as its name.
pub(crate) fn path_and_number(typed: &OsStr) -> Option<(PathBuf, String)> {
    if Path::new(typed).exists() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let bytes = typed.as_bytes();
        let at = bytes.iter().rposition(|&byte| byte == b'=')?;
        let number = String::from_utf8_lossy(&bytes[at + 1..]).into_owned();
        Some((PathBuf::from(OsStr::from_bytes(&bytes[..at])), number))
    }
    #[cfg(not(unix))]
    {
        let (path, number) = typed.to_str()?.rsplit_once('=')?;
        Some((PathBuf::from(path), number.to_owned()))
    }
}
