//! [`apart`]: work of the compiler on a thread of its own, whose result a cancelled request does not wait for.

use crate::error::GrammarError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The stack of a compilation. llguidance follows references and rules by recursion, up to one level for every few
/// bytes of a source. Memory that is not used is not allocated.
const STACK_BYTES: usize = 256 << 20;

/// How often the flag of a request is looked at.
const INTERVAL: Duration = Duration::from_millis(5);

/// The flag that cancels a request, if it has one.
pub(crate) type CancelFlag = Option<Arc<AtomicBool>>;

/// Does work on a thread with a large stack; `what` names the kind of source in errors. Once the flag is set, the wait ends.
/// The work then goes on without anybody who waits for it, until it is done.
///
/// # Errors
/// The error of the work; [`GrammarError::Cancelled`]; the thread cannot be started, or it panicked.
pub(crate) fn apart<T: Send + 'static>(
    what: &'static str,
    cancel: &CancelFlag,
    work: impl FnOnce() -> Result<T, GrammarError> + Send + 'static,
) -> Result<T, GrammarError> {
    check(cancel)?;
    let failed = |reason: String| GrammarError::Invalid { what, reason };
    let (sender, result) = sync_channel(1);
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
        // A request that was cancelled does not take the result.
        let _ = sender.send(work());
    });
    thread.map_err(|error| failed(format!("no thread can be started: {error}")))?;
    loop {
        match result.recv_timeout(INTERVAL) {
            Ok(result) => return result,
            Err(RecvTimeoutError::Timeout) => check(cancel)?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(failed("the compiler failed (a defect: please report it)".to_owned()));
            }
        }
    }
}

/// # Errors
/// The request is cancelled.
fn check(cancel: &CancelFlag) -> Result<(), GrammarError> {
    match cancel {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(GrammarError::Cancelled),
        _ => Ok(()),
    }
}

/// The compilations that run at once. A cancelled one has its place until it is done, so that requests that are cancelled
/// one after the other do not add up.
#[derive(Debug)]
pub(crate) struct CompilationPlaces {
    free: Mutex<usize>,
    freed: Condvar,
}

/// A place; it is free again when this is dropped.
pub(crate) struct CompilationPlace(Arc<CompilationPlaces>);

impl CompilationPlaces {
    /// As many places as there are processors, at least two.
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        Self { free: Mutex::new(processors.max(2)), freed: Condvar::new() }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// The request is cancelled.
    pub(crate) fn take(self: &Arc<Self>, cancel: &CancelFlag) -> Result<CompilationPlace, GrammarError> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            check(cancel)?;
            if *free > 0 {
                *free -= 1;
                return Ok(CompilationPlace(Arc::clone(self)));
            }
            (free, _) = self.freed.wait_timeout(free, INTERVAL).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for CompilationPlace {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_cancelled_request_does_not_wait_for_its_compilation() {
        let (flag, (release, released), (started, has_started)) =
            (Arc::<AtomicBool>::default(), channel::<()>(), channel());
        let (waits, sets) = (Some(Arc::clone(&flag)), flag);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                has_started.recv().unwrap();
                sets.store(true, Ordering::Relaxed);
            });
            let work = move || {
                started.send(()).unwrap();
                // It would wait forever.
                assert!(released.recv().is_err());
                Ok(())
            };
            assert_eq!(apart("JSON schema", &waits, work), Err(GrammarError::Cancelled));
        });
        drop(release);
        assert_eq!(apart("JSON schema", &None, || Ok(7)), Ok(7));
        let failed = apart::<()>("JSON schema", &None, || panic!("a test")).unwrap_err();
        assert!(failed.to_string().contains("a defect"), "{failed}");
    }

    /// Also of requests that are cancelled while they wait for one.
    #[test]
    fn places_are_limited_and_come_back() {
        let places = Arc::new(CompilationPlaces { free: Mutex::new(1), freed: Condvar::new() });
        let first = places.take(&None).unwrap();
        let flag = Some(Arc::new(AtomicBool::new(true)));
        assert_eq!(places.take(&flag).err(), Some(GrammarError::Cancelled));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| places.take(&None).map(drop));
            drop(first);
            assert_eq!(second.join().unwrap(), Ok(()));
        });
        assert_eq!(*places.free.lock().unwrap(), 1);
    }
}
