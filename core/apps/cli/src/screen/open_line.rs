//! [`OpenLine`]: whether the last line of an answer on the terminal is incomplete.

use std::sync::atomic::{AtomicBool, Ordering};

/// The current line of the terminal of standard error; other output there begins on a new line.
pub(crate) static OF_PROCESS: OpenLine = OpenLine(AtomicBool::new(false));

/// Whether the current line of an answer is incomplete.
#[derive(Debug, Default)]
pub(crate) struct OpenLine(AtomicBool);

impl OpenLine {
    /// Sets the state after text of an answer was written.
    pub(crate) fn set(&self, open: bool) {
        self.0.store(open, Ordering::SeqCst);
    }

    /// Whether the line is incomplete.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns the prefix of a text that must begin on a new line; the line counts as complete from now on.
    pub(crate) fn end(&self) -> &'static str {
        if self.0.swap(false, Ordering::SeqCst) { "\n" } else { "" }
    }
}
