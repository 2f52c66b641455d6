//! SHA-256 of files.

use crate::{HubError, Progress};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;

/// The file's SHA-256, lower-case hexadecimal.
///
/// # Errors
/// The file cannot be read.
pub fn sha256(path: &Path, progress: &mut dyn Progress) -> Result<String, HubError> {
    let mut file = std::fs::File::open(path).map_err(HubError::io(path))?;
    let total = file.metadata().map_err(HubError::io(path))?.len();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    progress.begin(&format!("verifying {name}"), Some(total));
    let mut hash = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let read = file.read(&mut buffer).map_err(HubError::io(path))?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        progress.advance(read as u64);
    }
    progress.end();
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Compares the file's SHA-256 with the expected one.
///
/// # Errors
/// [`HubError::Checksum`], or the file cannot be read.
pub fn check(path: &Path, expected: &str, progress: &mut dyn Progress) -> Result<(), HubError> {
    let found = sha256(path, progress)?;
    if found.eq_ignore_ascii_case(expected) {
        return Ok(());
    }
    Err(HubError::Checksum { path: path.to_owned(), expected: expected.to_owned(), found })
}

/// Whether a text looks like a SHA-256 (the hub names blobs of large files so).
pub fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
