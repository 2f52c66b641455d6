//! [`DiskCacheCounts`]: what a disk cache has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a [`crate::DiskCache`] has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct DiskCacheCounts {
    /// Prompts that started with state from the disk.
    pub hits: u64,
    /// Prompts of at least one block for which the disk had no longer prefix than memory.
    pub misses: u64,
    /// Tokens whose state was read.
    pub read_tokens: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Files that were damaged, cut or foreign.
    pub damaged: u64,
    /// Blocks that were not written, because too many waited to be written.
    pub skipped: u64,
    /// Errors of the system, and faults of the cache itself.
    pub faults: u64,
    /// Files that were removed because of the limits.
    pub evicted: u64,
}

impl DiskCacheCounts {
    /// The difference to `before`.
    fn since(&self, before: &Self) -> Self {
        let Self { hits, misses, read_tokens, read_bytes, written_bytes, damaged, skipped, faults, evicted } =
            *self;
        Self {
            hits: hits - before.hits,
            misses: misses - before.misses,
            read_tokens: read_tokens - before.read_tokens,
            read_bytes: read_bytes - before.read_bytes,
            written_bytes: written_bytes - before.written_bytes,
            damaged: damaged - before.damaged,
            skipped: skipped - before.skipped,
            faults: faults - before.faults,
            evicted: evicted - before.evicted,
        }
    }
}

/// The same, counted by several threads, and the first fault.
#[derive(Debug, Default)]
pub(super) struct CacheTally {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
    pub(super) read_tokens: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) written_bytes: AtomicU64,
    pub(super) damaged: AtomicU64,
    pub(super) skipped: AtomicU64,
    pub(super) evicted: AtomicU64,
    faults: AtomicU64,
    first: Mutex<Option<String>>,
    reported: Mutex<DiskCacheCounts>,
}

impl CacheTally {
    /// Adds to a count.
    pub(super) fn add(count: &AtomicU64, more: u64) {
        count.fetch_add(more, Ordering::Relaxed);
    }

    /// Notes a fault. The first one is kept as text.
    pub(super) fn fault(&self, text: impl FnOnce() -> String) {
        if self.faults.fetch_add(1, Ordering::Relaxed) == 0 {
            let text = text();
            tracing::warn!(fault = %text, "the disk cache does not work as it should");
            *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
        }
    }

    /// The first fault; only once.
    pub(super) fn take_fault(&self) -> Option<String> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What was counted since the last call.
    pub(super) fn take_unreported(&self) -> DiskCacheCounts {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.counts();
        now.since(&std::mem::replace(&mut *reported, now))
    }

    pub(super) fn counts(&self) -> DiskCacheCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DiskCacheCounts {
            hits: of(&self.hits),
            misses: of(&self.misses),
            read_tokens: of(&self.read_tokens),
            read_bytes: of(&self.read_bytes),
            written_bytes: of(&self.written_bytes),
            damaged: of(&self.damaged),
            skipped: of(&self.skipped),
            faults: of(&self.faults),
            evicted: of(&self.evicted),
        }
    }
}
