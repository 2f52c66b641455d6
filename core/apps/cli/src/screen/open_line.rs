//! [`OpenLine`]: whether an answer stands on the terminal in a line that is not ended.

use std::sync::atomic::{AtomicBool, Ordering};

/// The line of the terminal that standard error goes to; what else is written there ends it first.
pub(crate) static OF_PROCESS: OpenLine = OpenLine(AtomicBool::new(false));

/// Whether a line of an answer is open.
#[derive(Debug, Default)]
pub(crate) struct OpenLine(AtomicBool);

impl OpenLine {
    /// An answer's text was written, and ended a line or did not.
    pub(crate) fn set(&self, open: bool) {
        self.0.store(open, Ordering::SeqCst);
    }

    /// Whether a line is open.
    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// What has to stand before a text that begins on a new line; the line counts as ended from now on.
    pub(crate) fn end(&self) -> &'static str {
        if self.0.swap(false, Ordering::SeqCst) { "\n" } else { "" }
    }
}
