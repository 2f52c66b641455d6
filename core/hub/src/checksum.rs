//! [`Checksum`]: the published checksum of a file.

use crate::{HubError, Progress};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;

/// A published checksum in lower-case hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// SHA-256 of the bytes: the hub's name of a large file.
    Sha256(String),
    /// SHA-1 of `blob LENGTH\0` and the bytes, as git names a blob: the hub's name of a small file.
    GitBlob(String),
}

impl Checksum {
    /// The checksum in the name of a blob (its ETag on the hub); `None` if the name is not a checksum.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        if !lower.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        match lower.len() {
            64 => Some(Self::Sha256(lower)),
            40 => Some(Self::GitBlob(lower)),
            _ => None,
        }
    }

    /// Checks the bytes of a file; `name` is the file's name in messages.
    ///
    /// # Errors
    /// [`HubError::Checksum`], or the file cannot be read.
    pub(crate) fn check(
        &self,
        path: impl AsRef<Path>,
        name: &str,
        progress: &mut dyn Progress,
    ) -> Result<(), HubError> {
        let path = path.as_ref();
        let (kind, expected, found) = match self {
            Self::Sha256(expected) => ("sha256", expected, digest::<Sha256>(path, name, false, progress)?),
            Self::GitBlob(expected) => ("git sha1", expected, digest::<Sha1>(path, name, true, progress)?),
        };
        if found == *expected {
            return Ok(());
        }
        Err(HubError::Checksum { path: path.to_owned(), kind, expected: expected.clone(), found })
    }
}

fn digest<D: Digest>(
    path: &Path,
    name: &str,
    as_git: bool,
    progress: &mut dyn Progress,
) -> Result<String, HubError> {
    let mut file = std::fs::File::open(path).map_err(HubError::io(path))?;
    let total = file.metadata().map_err(HubError::io(path))?.len();
    progress.begin(&format!("verifying {name}"), Some(total), 0);
    let mut hash = D::new();
    if as_git {
        hash.update(format!("blob {total}\0"));
    }
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let read = file.read(&mut buffer).map_err(HubError::io(path))?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        if progress.advance(read as u64).is_break() {
            progress.end();
            return Err(HubError::Stopped);
        }
    }
    progress.end();
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::Checksum;
    use crate::NoProgress;

    #[test]
    fn names_of_blobs_are_checksums_by_their_length() {
        assert!(matches!(Checksum::of_name(&"ab".repeat(32)), Some(Checksum::Sha256(_))));
        assert!(matches!(Checksum::of_name(&"ab".repeat(20)), Some(Checksum::GitBlob(_))));
        assert_eq!(Checksum::of_name("686897696a7c876b7e"), None);
    }

    /// From `printf hello | sha256sum` and `printf hello | git hash-object --stdin`.
    #[test]
    fn both_kinds_match_the_system_tools() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hello");
        std::fs::write(&path, "hello").unwrap();
        for name in [
            "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
            "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0",
        ] {
            let checksum = Checksum::of_name(name).unwrap();
            checksum.check(&path, "hello", &mut NoProgress).unwrap();
            std::fs::write(folder.path().join("other"), "hellO").unwrap();
            let error = checksum.check(folder.path().join("other"), "other", &mut NoProgress).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
