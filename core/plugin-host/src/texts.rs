//! Texts of the other side, copied before they are looked at; and the texts of errors that it leaves on a thread.

use menagerie_plugin::abi::Text;
use std::cell::RefCell;

/// Most bytes of a name, a sentence or an error.
const MOST_TEXT: usize = 64 << 10;

/// Most bytes of a spec or a table.
pub(crate) const MOST_FILE: usize = 1 << 20;

thread_local! {
    /// What the plugin said last on this thread of why it fails.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A copy of a text of at most `most` bytes.
///
/// # Errors
/// What is wrong with it.
///
/// # Safety
/// If its pointer is not null, as many bytes as it says can be read.
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
/// What is wrong with it.
///
/// # Safety
/// As [`copied`].
pub(crate) unsafe fn name(text: Text) -> Result<String, String> {
    // SAFETY: as this function asks.
    unsafe { copied(text, MOST_TEXT) }
}

/// A copy that lasts as long as the process.
pub(crate) fn leaked(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The beginning of bytes, escaped.
fn shown(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(64)].escape_ascii().to_string()
}

/// Keeps what a plugin says of why it fails.
///
/// # Safety
/// As [`copied`].
pub(crate) unsafe fn say(text: Text) {
    let cut = Text { data: text.data, len: text.len.min(MOST_TEXT) };
    // SAFETY: no more bytes than there are.
    let said = unsafe { copied(cut, MOST_TEXT) }.unwrap_or_else(|fault| format!("({fault})"));
    SAID.with_borrow_mut(|slot| *slot = Some(said));
}

/// Forgets what was said before a call.
pub(crate) fn hush() {
    SAID.with_borrow_mut(|slot| {
        if slot.is_some() {
            *slot = None;
        }
    });
}

/// What was said during a call that failed.
pub(crate) fn said() -> String {
    let said = SAID.with_borrow_mut(Option::take);
    said.unwrap_or_else(|| "it failed without an error text (it did not call set_error)".to_owned())
}
