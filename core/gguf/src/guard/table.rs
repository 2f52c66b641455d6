//! The mapped ranges, in a fixed table that a signal handler may read: atomics only, no lock, no allocation.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Maximum number of mapped files.
const SLOTS: usize = 4096;

static TABLE: [GuardEntry; SLOTS] = [const { GuardEntry::new() }; SLOTS];

struct GuardEntry {
    taken: AtomicBool,
    /// Grows with every change, so that a reader sees that start and length belong together.
    changes: AtomicUsize,
    start: AtomicUsize,
    len: AtomicUsize,
    poisoned: AtomicBool,
}

impl GuardEntry {
    const fn new() -> Self {
        Self {
            taken: AtomicBool::new(false),
            changes: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            poisoned: AtomicBool::new(false),
        }
    }

    fn set(&self, start: usize, len: usize) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.len.store(len, Ordering::SeqCst);
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    fn range(&self) -> Option<(usize, usize)> {
        let before = self.changes.load(Ordering::SeqCst);
        let (start, len) = (self.start.load(Ordering::SeqCst), self.len.load(Ordering::SeqCst));
        let settled = before.is_multiple_of(2) && before == self.changes.load(Ordering::SeqCst);
        (settled && len > 0).then_some((start, len))
    }
}

/// A mapping's slot in the table; freed when dropped, which must happen before the range is unmapped.
#[derive(Debug)]
pub(crate) struct GuardSlot(usize);

impl GuardSlot {
    /// A slot for the range, or `None` if all are used.
    pub(crate) fn register(start: usize, len: usize) -> Option<Self> {
        let free = TABLE.iter().position(|entry| !entry.taken.swap(true, Ordering::SeqCst))?;
        let entry = TABLE.get(free)?;
        entry.poisoned.store(false, Ordering::SeqCst);
        entry.set(start, len);
        Some(Self(free))
    }

    /// Whether a page of the range vanished.
    pub(crate) fn poisoned(&self) -> bool {
        TABLE.get(self.0).is_some_and(|entry| entry.poisoned.load(Ordering::SeqCst))
    }
}

impl Drop for GuardSlot {
    fn drop(&mut self) {
        if let Some(entry) = TABLE.get(self.0) {
            entry.set(0, 0);
            entry.taken.store(false, Ordering::SeqCst);
        }
    }
}

/// Poisons the range that contains `address`, and returns it (start, length in bytes). Signal-safe.
pub(super) fn poison(address: usize) -> Option<(usize, usize)> {
    for entry in &TABLE {
        if let Some((start, len)) = entry.range()
            && address >= start
            && address - start < len
        {
            entry.poisoned.store(true, Ordering::SeqCst);
            return Some((start, len));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader, as the signal handler is one, sees a range whole or not at all while other threads map and unmap files.
    #[test]
    fn a_reader_never_sees_half_a_range() {
        let base = usize::MAX / 4;
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        std::thread::scope(|scope| {
            for writer in 1..3 {
                scope.spawn(move || {
                    for round in 0..rounds {
                        let start = base + writer * 1_000_000 + round % 100 * 1000;
                        drop(GuardSlot::register(start, start % 977 + 1).unwrap());
                    }
                });
            }
            for round in 0..rounds {
                let address = base + (1 + round % 2) * 1_000_000 + round % 100 * 1000;
                if let Some((start, len)) = poison(address) {
                    assert_eq!((start, len), (address, address % 977 + 1));
                }
            }
        });
    }

    #[test]
    fn ranges_are_found_while_registered() {
        // Addresses that no mapping can have.
        let base = usize::MAX / 2 + 12_345;
        assert!(poison(base).is_none());
        let slot = GuardSlot::register(base, 100).unwrap();
        assert!(!slot.poisoned());
        assert!(poison(base - 1).is_none() && poison(base + 100).is_none());
        assert!(!slot.poisoned());
        assert_eq!(poison(base + 99), Some((base, 100)));
        assert!(slot.poisoned());
        drop(slot);
        assert!(poison(base).is_none());
        let again = GuardSlot::register(base, 100).unwrap();
        assert!(!again.poisoned());
    }
}
