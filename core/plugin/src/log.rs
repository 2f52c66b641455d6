//! [`log`]: lines for the host's log; and what the host does for a plugin anywhere.

use crate::abi::{HostApi, Text};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The host, from `init` on. Plugins that are linked into one program share it.
static HOST: AtomicPtr<HostApi> = AtomicPtr::new(ptr::null_mut());

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Something failed.
    Error = 1,
    /// Something will surprise.
    Warning = 2,
    /// What happens.
    Information = 3,
    /// For who looks for a fault.
    Debugging = 4,
    /// Every step.
    Tracing = 5,
}

/// Writes a line to the host's log; from any thread. Before the plugin is initialized nothing is written.
pub fn log(level: LogLevel, text: &str) {
    if let Some(host) = host() {
        // SAFETY: the host keeps its table for the life of the process, takes lines on any thread and borrows the text for
        // the call.
        unsafe { (host.log)(host.context, level as u32, Text::new(text)) }
    }
}

/// Tells why the function that the host waits for on this thread fails.
pub(crate) fn set_error(text: &str) {
    if let Some(host) = host() {
        // SAFETY: as in `log`.
        unsafe { (host.set_error)(host.context, Text::new(text)) }
    }
}

/// The host's table; absent before `init`.
pub(crate) fn host() -> Option<&'static HostApi> {
    // SAFETY: `set_host` was given a table that lives as long as the process.
    unsafe { HOST.load(Ordering::Acquire).as_ref() }
}

/// From now on this host is spoken to.
///
/// # Safety
/// The table is of this version or a later one and lives as long as the process.
pub(crate) unsafe fn set_host(host: *const HostApi) {
    HOST.store(host.cast_mut(), Ordering::Release);
}
