//! The table of the host for tests: errors are kept per thread, the log goes to standard error.

use crate::abi::{ABI_MAJOR, HostApi, Text};
use crate::abi::{Header, capability};
use crate::caught::install_hook;
use crate::log;
use std::cell::RefCell;
use std::ffi::c_void;

thread_local! {
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Takes the texts that plugins have passed to `set_error` on this thread, and the faults of the test host; `None` if there
/// are none.
pub fn take_errors() -> Option<String> {
    let lines = TOLD.with(RefCell::take);
    (!lines.is_empty()).then(|| lines.join("; "))
}

/// Notes a fault, as a host does before it gives an error to a plugin.
pub(super) fn note(text: String) {
    TOLD.with(|told| told.borrow_mut().push(text));
}

unsafe extern "C" fn set_error(_context: *mut c_void, text: Text) {
    // SAFETY: borrowed for the call.
    let bytes = unsafe { text.bytes() }.unwrap_or(b"(a text that cannot be one)");
    note(String::from_utf8_lossy(bytes).into_owned());
}

unsafe extern "C" fn write_log(_context: *mut c_void, level: u32, text: Text) {
    // SAFETY: borrowed for the call.
    let bytes = unsafe { text.bytes() }.unwrap_or(b"(a text that cannot be one)");
    eprintln!("plugin, level {level}: {}", String::from_utf8_lossy(bytes));
}

/// What a host tells a plugin of itself: no context, so that any thread may use it.
struct Table(HostApi);

// SAFETY: the functions need no context.
unsafe impl Sync for Table {}

static TABLE: Table = Table(HostApi {
    header: Header { struct_size: size_of::<HostApi>() as u32, abi_major: ABI_MAJOR, abi_minor: 0 },
    capabilities: capability::ALL,
    cpu_features: 0,
    context: std::ptr::null_mut(),
    log: write_log,
    set_error,
});

/// The table, for an [`Init`](crate::abi::Init).
pub(super) fn table() -> &'static HostApi {
    &TABLE.0
}

/// The components of this program speak to this host, unless they have another.
pub(super) fn stand_in() {
    if log::host().is_none() {
        // SAFETY: of this version, for the life of the process.
        unsafe { log::set_host(table()) };
        install_hook();
    }
}
