//! The gate of a region: one word that says which region is open and how many workers are inside.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// There are tasks to take.
const OPEN: u64 = 1 << 15;
/// The caller sleeps until the last worker leaves.
const WAITED_FOR: u64 = 1 << 14;
/// The number of workers inside.
const INSIDE: u64 = WAITED_FOR - 1;
/// One step of the epoch, which fills the bits above the flags.
const EPOCH: u64 = 1 << 16;

/// How long a worker spins for the next region: longer than the gaps within a token, far shorter than a time slice.
/// Then it yields for as long again, then it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// The total time of spinning and yielding before a thread sleeps.
const AWAKE: Duration = Duration::from_micros(120);
/// How long the caller stays awake for the last workers: tasks of a prefill may differ by this much.
const AWAKE_AT_END: Duration = Duration::from_micros(1000);

#[repr(align(128))]
pub(super) struct RegionGate {
    word: AtomicU64,
    asleep: AtomicUsize,
    shut: AtomicBool,
    /// Whether there is a CPU for every thread; if not, spinning only takes time from threads that work.
    spins: bool,
    workers: Sleep,
    caller: Sleep,
}

#[derive(Default)]
struct Sleep {
    lock: Mutex<()>,
    signal: Condvar,
}

impl Sleep {
    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn while_true(&self, condition: impl Fn() -> bool) {
        let mut guard = self.lock();
        while condition() {
            guard = self.signal.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl RegionGate {
    pub(super) fn new(spins: bool) -> RegionGate {
        RegionGate {
            word: AtomicU64::new(0),
            asleep: AtomicUsize::new(0),
            shut: AtomicBool::new(false),
            spins,
            workers: Sleep::default(),
            caller: Sleep::default(),
        }
    }

    /// Waits for a region after the epoch `seen` and enters it; returns its epoch, or `None` when the pool ends.
    pub(super) fn enter(&self, mut seen: u64) -> Option<u64> {
        let mut patience = Backoff::new(self.spins, AWAKE);
        loop {
            let word = self.word.load(Ordering::Acquire);
            let epoch = word / EPOCH;
            if epoch != seen && word & OPEN != 0 {
                if self.word.compare_exchange(word, word + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                    return Some(epoch);
                }
                continue;
            }
            if epoch != seen {
                // A region was opened and closed: more will follow, so stay awake.
                seen = epoch;
                patience = Backoff::new(self.spins, AWAKE);
            }
            if self.shut.load(Ordering::Acquire) {
                return None;
            }
            if !patience.wait() {
                self.sleep(seen);
                patience = Backoff::new(self.spins, AWAKE);
            }
        }
    }

    /// Sleeps until the epoch is no longer `seen` or the pool ends.
    fn sleep(&self, seen: u64) {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `open`: either the opener sees us asleep or we see its word.
        fence(Ordering::SeqCst);
        self.workers.while_true(|| {
            self.word.load(Ordering::SeqCst) / EPOCH == seen && !self.shut.load(Ordering::SeqCst)
        });
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }

    /// Opens the gate for a new region and wakes at most `wanted` sleepers. No worker may be inside.
    pub(super) fn open(&self, wanted: usize) {
        let epoch = self.word.load(Ordering::Relaxed) / EPOCH;
        self.word.store(epoch.wrapping_add(1).wrapping_mul(EPOCH) | OPEN, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let asleep = self.asleep.load(Ordering::SeqCst);
        if asleep > 0 {
            // A thread that checked the word before the store is inside `wait` once we have the lock.
            drop(self.workers.lock());
            for _ in 0..asleep.min(wanted) {
                self.workers.signal.notify_one();
            }
        }
    }

    /// Closes the gate and waits until all workers have left.
    pub(super) fn close(&self) {
        let mut word = self.word.fetch_and(!OPEN, Ordering::AcqRel);
        let mut patience = Backoff::new(self.spins, AWAKE_AT_END);
        while word & INSIDE != 0 {
            if !patience.wait() {
                self.word.fetch_or(WAITED_FOR, Ordering::AcqRel);
                self.caller.while_true(|| self.word.load(Ordering::Acquire) & INSIDE != 0);
                return;
            }
            word = self.word.load(Ordering::Acquire);
        }
    }

    /// A worker leaves the region it entered.
    pub(super) fn leave(&self) {
        let before = self.word.fetch_sub(1, Ordering::AcqRel);
        if before & WAITED_FOR != 0 && before & INSIDE == 1 {
            drop(self.caller.lock());
            self.caller.signal.notify_one();
        }
    }

    /// Ends the pool: `enter` returns `None` to all workers.
    pub(super) fn shut(&self) {
        self.shut.store(true, Ordering::SeqCst);
        drop(self.workers.lock());
        self.workers.signal.notify_all();
    }
}

/// Spins first, then yields, until the time is over.
struct Backoff {
    since: Option<Instant>,
    rounds: u32,
    spins: bool,
    limit: Duration,
}

impl Backoff {
    fn new(spins: bool, limit: Duration) -> Backoff {
        Backoff { since: None, rounds: 0, spins, limit }
    }

    /// Waits a moment; returns false when the time is over.
    fn wait(&mut self) -> bool {
        self.rounds += 1;
        if self.spins && !self.rounds.is_multiple_of(32) {
            std::hint::spin_loop();
            return true;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if self.spins && waited < SPIN {
            std::hint::spin_loop();
            return true;
        }
        // Yielding rounds follow each other: the clock is read in each.
        self.rounds |= 31;
        std::thread::yield_now();
        waited < self.limit
    }
}
