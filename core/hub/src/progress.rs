//! [`Progress`]: reports of long operations.

use std::ops::ControlFlow;

/// Receives reports of long operations; the command line shows a bar.
pub trait Progress: Send {
    /// A step begins; it has `total` bytes, if known, of which `done` exist from an earlier run.
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64);
    /// `bytes` more are done. `Break` stops the operation ([`HubError::Stopped`](crate::HubError::Stopped)).
    fn advance(&mut self, bytes: u64) -> ControlFlow<()>;
    /// The step is over.
    fn end(&mut self);
    /// A note for the user.
    fn note(&mut self, text: &str);
}

/// Ignores all reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&mut self, _what: &str, _total: Option<u64>, _done: u64) {}
    fn advance(&mut self, _bytes: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn end(&mut self) {}
    fn note(&mut self, _text: &str) {}
}

/// `1234567` as `1.2 MB`.
pub(crate) fn readable_bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}
