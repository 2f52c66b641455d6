//! Texts of the ABI as `&str`.

use crate::abi::Text;
use crate::error::{Error, Result};
use std::slice;

impl Text {
    /// No text.
    pub const EMPTY: Text = Text { data: std::ptr::null(), len: 0 };

    /// The bytes, which need not be UTF-8; none where the descriptor cannot be one (null with a length, longer than memory).
    ///
    /// # Safety
    /// `data` leads to `len` bytes that nobody writes while the slice lives.
    pub unsafe fn bytes<'a>(self) -> Option<&'a [u8]> {
        if self.len == 0 {
            return Some(&[]);
        }
        if self.data.is_null() || self.len > isize::MAX as usize {
            return None;
        }
        // SAFETY: not null; that there are so many bytes is the caller's promise.
        Some(unsafe { slice::from_raw_parts(self.data, self.len) })
    }

    /// The text; none where it is not UTF-8 or cannot be one.
    ///
    /// # Safety
    /// As [`Text::bytes`].
    pub unsafe fn as_str<'a>(self) -> Option<&'a str> {
        // SAFETY: the caller's promise.
        std::str::from_utf8(unsafe { self.bytes() }?).ok()
    }
}

/// The text that the host gave for `what`.
///
/// # Safety
/// As [`Text::bytes`].
pub(crate) unsafe fn given<'a>(text: Text, what: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { text.as_str() }.ok_or_else(|| Error::new(format!("{what}: the text from the host is not UTF-8")))
}
