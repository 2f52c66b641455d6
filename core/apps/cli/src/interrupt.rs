//! Ctrl-C: once stops the generation, twice ends the process.

use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Installs the handler and returns the flag it sets; clear the flag before the next generation.
pub(crate) fn flag() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if seen.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    })
    .map_err(|error| Failure::about("cannot listen for Ctrl-C", error))?;
    Ok(flag)
}
