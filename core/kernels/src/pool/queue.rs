//! Who may open the next region: callers on several threads take turns.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::memory::Scratch;

/// How long one caller may run regions while others wait.
const TURN: Duration = Duration::from_micros(500);
/// The most times that a caller whose turn is over yields to let the others take theirs.
const GIVE_WAY: usize = 2000;

thread_local! {
    /// Its address identifies the thread.
    static TOKEN: u8 = const { 0 };
}

/// A lock that the same caller keeps for up to a turn (handing it over costs a wake-up) and then passes on.
pub(super) struct CallerQueue {
    lock: Mutex<Scratch>,
    waiting: AtomicUsize,
    owner: AtomicUsize,
    /// When the owner's turn began, nanoseconds since `born`.
    began: AtomicU64,
    born: Instant,
}

impl CallerQueue {
    pub(super) fn new() -> CallerQueue {
        CallerQueue {
            lock: Mutex::default(),
            waiting: AtomicUsize::new(0),
            owner: AtomicUsize::new(0),
            began: AtomicU64::new(0),
            born: Instant::now(),
        }
    }

    /// Waits for this caller's turn, which lasts while the guard lives; the guard also holds the scratch for the
    /// caller's own tasks.
    pub(super) fn enter(&self) -> MutexGuard<'_, Scratch> {
        let me = TOKEN.with(|token| std::ptr::from_ref(token).addr());
        if self.waiting.load(Ordering::Relaxed) > 0 && self.owner.load(Ordering::Relaxed) == me {
            self.give_way(me);
        }
        let guard = match self.lock.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                guard
            }
        };
        if self.owner.swap(me, Ordering::Relaxed) != me {
            self.began.store(self.now(), Ordering::Relaxed);
        }
        guard
    }

    /// If this caller's turn has lasted long enough, lets another caller in.
    fn give_way(&self, me: usize) {
        let held = self.now().saturating_sub(self.began.load(Ordering::Relaxed));
        if u128::from(held) < TURN.as_nanos() {
            return;
        }
        for _ in 0..GIVE_WAY {
            std::thread::yield_now();
            if self.owner.load(Ordering::Relaxed) != me || self.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        self.began.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
