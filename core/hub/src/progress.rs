//! [`Progress`]: what a caller hears while something long goes on.

/// Hears of long work; the command line shows a bar.
pub trait Progress: Send {
    /// A step begins; `total` bytes if known, `done` of them from an earlier call.
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64);
    /// `bytes` more are done.
    fn advance(&mut self, bytes: u64);
    /// The step is over.
    fn end(&mut self);
    /// Something a person should know, though nothing failed.
    fn note(&mut self, text: &str);
}

/// Says nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&mut self, _what: &str, _total: Option<u64>, _done: u64) {}
    fn advance(&mut self, _bytes: u64) {}
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
