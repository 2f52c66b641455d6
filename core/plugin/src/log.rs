//! [`log`]: lines for the host's log; and the table of the host.

use crate::abi::{HostApi, Text};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The table of the host, set by `init`. All plugins of a program share it.
static HOST: AtomicPtr<HostApi> = AtomicPtr::new(ptr::null_mut());

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something unexpected.
    Warning = 2,
    /// Information.
    Information = 3,
    /// For debugging.
    Debugging = 4,
    /// Details of every step.
    Tracing = 5,
}

/// Writes a line to the host's log, from any thread. Does nothing before the plugin is initialized.
pub fn log(level: LogLevel, text: &str) {
    if let Some(host) = host() {
        // SAFETY: the host keeps its table for the life of the process, takes lines on any thread and borrows the text for
        // the call.
        unsafe { (host.log)(host.context, level as u32, Text::new(text)) }
    }
}

/// Sets the error text of the function that runs on this thread.
pub(crate) fn set_error(text: &str) {
    if let Some(host) = host() {
        // SAFETY: as in `log`.
        unsafe { (host.set_error)(host.context, Text::new(text)) }
    }
}

/// The host's table; `None` before `init`.
pub(crate) fn host() -> Option<&'static HostApi> {
    // SAFETY: `set_host` was given a table that lives as long as the process.
    unsafe { HOST.load(Ordering::Acquire).as_ref() }
}

/// Sets the host's table.
///
/// # Safety
/// The table is of this version or a later one and lives as long as the process.
pub(crate) unsafe fn set_host(host: *const HostApi) {
    HOST.store(host.cast_mut(), Ordering::Release);
}
