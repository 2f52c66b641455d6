//! [`Limits`]: the time and the memory that one input may take.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Most bytes of an input, for both runners.
pub const LONGEST_INPUT: usize = 1 << 16;

/// Longest time for one input, on a machine that is busy with others. Chat templates and tokenizers have bounds of
/// seconds of their own.
const LONGEST: Duration = Duration::from_secs(20);

/// The most heap bytes of one input: twice the largest limit of a reader (64 MiB for the text that a template makes).
const MOST_MEMORY: usize = 128 << 20;

thread_local! {
    /// Heap bytes that this thread allocated and did not free, and their peak.
    static USED: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Counts the heap bytes of each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    USED.set(USED.get() + bytes);
    PEAK.set(PEAK.get().max(USED.get()));
}

// SAFETY: every call goes to the system's allocator unchanged. The counters are cells without a destructor that are
// initialized at compile time, so that reading them allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are those of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are those of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new memory exist at the same time while the bytes are copied.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller's promises are those of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Measures one input.
pub struct Limits {
    began: Instant,
    used: isize,
}

impl Limits {
    /// Begins to measure on this thread.
    pub fn begin() -> Self {
        PEAK.set(USED.get());
        Self { began: Instant::now(), used: USED.get() }
    }

    /// The limit that was exceeded, if one was.
    pub fn exceeded(&self) -> Option<String> {
        let took = self.elapsed();
        if took > LONGEST {
            return Some(format!("it took {took:.1?}; at most {LONGEST:?} are allowed"));
        }
        let peak = usize::try_from(PEAK.get() - self.used).unwrap_or(0);
        let too_much = peak > MOST_MEMORY;
        too_much.then(|| {
            format!("it took {} MiB of memory; at most {} are allowed", peak >> 20, MOST_MEMORY >> 20)
        })
    }

    /// The time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}
