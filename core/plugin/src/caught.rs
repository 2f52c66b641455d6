//! Catches panics: [`status`] runs code of a plugin, and a panic becomes [`PANIC`] with its text.

use crate::abi::{ERROR, OK, PANIC, Status};
use crate::error::Result;
use crate::log::{LogLevel, log, set_error};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

thread_local! {
    /// How many functions of plugins this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// What the hook saw last on this thread, with its place.
    static SEEN: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics inside functions of plugins go to the host's log; others to the hook that was there.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if DEPTH.try_with(Cell::get).unwrap_or(0) == 0 {
                return before(info);
            }
            let text = described(info);
            log(LogLevel::Error, &text);
            // Where the thread ends, the text is only in the log.
            let _ = SEEN.try_with(|seen| seen.try_borrow_mut().map(|mut seen| *seen = Some(text)));
        }));
    });
}

fn described(info: &PanicHookInfo<'_>) -> String {
    let what = message(info.payload());
    match info.location() {
        Some(place) => format!("panic in plugin at {place}: {what}"),
        None => format!("panic in plugin: {what}"),
    }
}

fn message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "(a payload that is not text)",
    }
}

/// Runs a function of a plugin for the host; errors and panics have their text given to `set_error`.
pub(crate) fn status(function: impl FnOnce() -> Result<()>) -> Status {
    match caught(function) {
        Ok(Ok(())) => OK,
        Ok(Err(error)) => {
            if let Some(text) = error.text() {
                set_error(text);
            }
            ERROR
        }
        Err(text) => {
            set_error(&text);
            PANIC
        }
    }
}

/// What a function gives, or the text of the panic it ended with.
pub(crate) fn caught<T>(function: impl FnOnce() -> T) -> std::result::Result<T, String> {
    let depth = DEPTH.with(|depth| depth.replace(depth.get() + 1));
    let outcome = panic::catch_unwind(AssertUnwindSafe(function)).map_err(|payload| {
        let seen = SEEN.with(|seen| seen.borrow_mut().take());
        let text = seen.unwrap_or_else(|| format!("panic in plugin: {}", message(&*payload)));
        drop_payload(payload);
        text
    });
    DEPTH.with(|cell| cell.set(depth));
    outcome
}

/// A payload is the author's: dropping it may panic again, with a payload of which the same holds.
fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(second) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(second);
    }
    SEEN.with(|seen| seen.borrow_mut().take());
}
