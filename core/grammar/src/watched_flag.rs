//! [`WatchedFlag`]: the flag that cancels a request ends what the parser computes for it.
//!
//! The parser has a flag of its own, which it looks at while it computes. A thread passes on the flags of the requests for
//! which something is computed now. It sleeps while there are none.

use llguidance::CancellationHandle;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often the flags are looked at: a computation goes on for so long at most.
const INTERVAL: Duration = Duration::from_millis(5);

/// The intervals without a computation after which the thread sleeps until there is one.
const IDLE_INTERVALS: u32 = 200;

/// The flag of a request, and the parser that it ends.
#[derive(Clone)]
pub(crate) struct WatchedFlag {
    flag: Arc<AtomicBool>,
    handle: CancellationHandle,
}

/// While it lives, a flag is watched.
pub(crate) struct FlagWatch(Option<u64>);

/// The flags that are watched, and the thread that does it.
struct FlagWatcher {
    list: Mutex<WatchList>,
    wake: Condvar,
}

#[derive(Default)]
struct WatchList {
    flags: Vec<(u64, WatchedFlag)>,
    next: u64,
    /// Whether the thread waits for a flag.
    sleeps: bool,
}

/// The watcher of this process; `None` if its thread could not be started.
static WATCHER: LazyLock<Option<&'static FlagWatcher>> = LazyLock::new(|| {
    let watcher: &'static FlagWatcher =
        Box::leak(Box::new(FlagWatcher { list: Mutex::default(), wake: Condvar::new() }));
    let thread = std::thread::Builder::new().name("cancelled-constraints".to_owned());
    thread.spawn(|| watcher.run()).ok().map(|_| watcher)
});

impl WatchedFlag {
    pub(crate) fn new(flag: Arc<AtomicBool>, handle: CancellationHandle) -> Self {
        Self { flag, handle }
    }

    /// Watches the flag from now on.
    pub(crate) fn watch(&self) -> FlagWatch {
        self.pass_on();
        let Some(watcher) = *WATCHER else { return FlagWatch(None) };
        let mut list = watcher.list();
        let number = list.next;
        list.next += 1;
        list.flags.push((number, self.clone()));
        if list.sleeps {
            watcher.wake.notify_one();
        }
        FlagWatch(Some(number))
    }

    fn pass_on(&self) {
        if self.flag.load(Ordering::Relaxed) {
            self.handle.cancel();
        }
    }
}

impl Drop for FlagWatch {
    fn drop(&mut self) {
        if let (Some(number), Some(watcher)) = (self.0, *WATCHER) {
            watcher.list().flags.retain(|(known, _)| *known != number);
        }
    }
}

impl FlagWatcher {
    fn list(&self) -> MutexGuard<'_, WatchList> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut idle = 0;
        let mut list = self.list();
        loop {
            list.flags.iter().for_each(|(_, flag)| flag.pass_on());
            idle = if list.flags.is_empty() { idle + 1 } else { 0 };
            if idle < IDLE_INTERVALS {
                let (next, _) =
                    self.wake.wait_timeout(list, INTERVAL).unwrap_or_else(PoisonError::into_inner);
                list = next;
                continue;
            }
            list.sleeps = true;
            let is_idle = |list: &mut WatchList| list.flags.is_empty();
            list = self.wake.wait_while(list, is_idle).unwrap_or_else(PoisonError::into_inner);
            list.sleeps = false;
            idle = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// While something is computed, in any number of threads, also after the watcher has slept.
    #[test]
    fn a_flag_ends_what_is_computed() {
        for pause in [0, 1, 2 * IDLE_INTERVALS] {
            std::thread::sleep(INTERVAL * pause);
            let flags: Vec<WatchedFlag> =
                (0..4).map(|_| WatchedFlag::new(Arc::default(), CancellationHandle::default())).collect();
            std::thread::scope(|scope| {
                for flag in &flags {
                    scope.spawn(|| {
                        let _watch = flag.watch();
                        let start = Instant::now();
                        while !flag.handle.is_cancelled() {
                            assert!(start.elapsed() < Duration::from_secs(60), "it goes on");
                            std::thread::sleep(Duration::from_micros(100));
                        }
                    });
                }
                std::thread::sleep(INTERVAL * 2);
                assert!(flags.iter().all(|flag| !flag.handle.is_cancelled()));
                flags.iter().for_each(|flag| flag.flag.store(true, Ordering::Relaxed));
            });
        }
    }

    #[test]
    fn a_flag_that_is_not_watched_ends_nothing() {
        let flag = WatchedFlag::new(Arc::default(), CancellationHandle::default());
        drop(flag.watch());
        flag.flag.store(true, Ordering::Relaxed);
        std::thread::sleep(INTERVAL * 4);
        assert!(!flag.handle.is_cancelled());
        let _watch = flag.watch();
        assert!(flag.handle.is_cancelled(), "at the beginning of the next computation");
    }
}
