//! Ctrl-C: ends the process at once (130) while something loads or is read; once stops a generation, twice ends the
//! process; in a conversation it never ends the process.

use crate::failure::Failure;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Exit code of a process that Ctrl-C ended, as shells count.
pub(crate) const INTERRUPTED: u8 = 130;

/// How many parts of the program want to end at once.
static AT_ONCE: AtomicUsize = AtomicUsize::new(0);

/// How many parts of the program hold what must not be lost.
static NEVER: AtomicUsize = AtomicUsize::new(0);

/// While held, Ctrl-C does something else than to stop a generation.
pub(crate) struct Held(&'static AtomicUsize);

/// From here on one Ctrl-C ends the process, until the value is dropped. What a download has fetched stays.
pub(crate) fn at_once() -> Result<Held, Failure> {
    hold(&AT_ONCE)
}

/// From here on Ctrl-C only sets the flag, however often it comes, until the value is dropped.
pub(crate) fn never() -> Result<Held, Failure> {
    hold(&NEVER)
}

fn hold(count: &'static AtomicUsize) -> Result<Held, Failure> {
    flag()?;
    count.fetch_add(1, Ordering::SeqCst);
    Ok(Held(count))
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Installs the handler and returns the flag it sets; clear the flag before the next generation.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    static FLAG: OnceLock<Result<Arc<AtomicBool>, String>> = OnceLock::new();
    let installed = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let handler = move || {
            let again = seen.swap(true, Ordering::SeqCst);
            let held = |count: &AtomicUsize| count.load(Ordering::SeqCst) > 0;
            if held(&AT_ONCE) || (again && !held(&NEVER)) {
                std::process::exit(i32::from(INTERRUPTED));
            }
        };
        ctrlc::set_handler(handler).map_err(|error| error.to_string())?;
        Ok(flag)
    });
    let installed = installed.as_ref().map_err(|error| Failure::about("cannot listen for Ctrl-C", error));
    installed.map(Arc::clone)
}
