//! Paths as text.

use std::fmt::Write;
use std::path::Path;

/// A path as text. Bytes that are not UTF-8 are escaped, so that two paths never look alike: `caf\xE9.gguf`.
pub fn path_text(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a string does not fail.
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_as_it_is() {
        assert_eq!(path_text(Path::new("a/caf\u{e9} \u{fffd}.gguf")), "a/caf\u{e9} \u{fffd}.gguf");
    }

    #[test]
    #[cfg(unix)]
    fn bytes_that_are_no_text_are_written_out() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(OsStr::from_bytes(b"a\xff/caf\xe9\xc3.gguf"));
        assert_eq!(path_text(path), "a\\xFF/caf\\xE9\\xC3.gguf");
    }
}
