//! Texts of plugins, which are copied before use; and the error text of each thread.

use menagerie_plugin::abi::Text;
use std::cell::RefCell;

/// Maximum size of a name, a sentence or an error in bytes.
const MOST_TEXT: usize = 64 << 10;

/// Maximum size of a spec or a table in bytes.
pub(crate) const MOST_FILE: usize = 1 << 20;

thread_local! {
    /// The last error text of a plugin on this thread.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A copy of a text of at most `most` bytes.
///
/// # Errors
/// The fault of the text.
///
/// # Safety
/// If its pointer is not null, its bytes can be read.
pub(crate) unsafe fn copied(text: Text, most: usize) -> Result<String, String> {
    if text.len == 0 {
        return Ok(String::new());
    }
    if text.data.is_null() {
        return Err(format!("a text of {} bytes with a null pointer", text.len));
    }
    if text.len > most {
        return Err(format!("a text of {} bytes, more than the limit of {most}", text.len));
    }
    // SAFETY: not null, and readable by the caller's word.
    let bytes = unsafe { std::slice::from_raw_parts(text.data, text.len) };
    String::from_utf8(bytes.to_vec()).map_err(|error| {
        format!(
            "a text that is not UTF-8 (byte {}): \"{}\"",
            error.utf8_error().valid_up_to(),
            shown(error.as_bytes())
        )
    })
}

/// A copy of a name or a sentence.
///
/// # Errors
/// The fault of the text.
///
/// # Safety
/// As [`copied`].
pub(crate) unsafe fn name(text: Text) -> Result<String, String> {
    // SAFETY: as this function asks.
    unsafe { copied(text, MOST_TEXT) }
}

/// A copy that lives as long as the process.
pub(crate) fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The first bytes, escaped.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(64)].escape_ascii().to_string()
}

/// Stores the error text of a plugin.
///
/// # Safety
/// As [`copied`].
pub(crate) unsafe fn say(text: Text) {
    let cut = Text { data: text.data, len: text.len.min(MOST_TEXT) };
    // SAFETY: no more bytes than there are.
    let said = unsafe { copied(cut, MOST_TEXT) }.unwrap_or_else(|fault| format!("({fault})"));
    SAID.with_borrow_mut(|slot| *slot = Some(said));
}

/// Clears the error text before a call.
pub(crate) fn hush() {
    SAID.with_borrow_mut(|slot| {
        if slot.is_some() {
            *slot = None;
        }
    });
}

/// The error text of a failed call.
pub(crate) fn said() -> String {
    let said = SAID.with_borrow_mut(Option::take);
    said.unwrap_or_else(|| "it failed without an error text (it did not call set_error)".to_owned())
}
