//! [`Frame`]: memory for one call: descriptors of its operands, and scratch memory for the plugin.
//!
//! A frame returns to a pool when its call ends, so steps reuse the memory of earlier steps. The pool is emptied when the
//! last instance is dropped.

use menagerie_plugin::abi::{Sequence, Tensor};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Alignment of all scratch memory.
const ALIGN: usize = 64;
/// Minimum size of a chunk from the system.
const SMALLEST: usize = 64 << 10;

/// Memory for one call.
#[derive(Default)]
pub(crate) struct Frame {
    pub(crate) sequences: Vec<Sequence>,
    pub(crate) states: Vec<Tensor>,
    pub(crate) slots: Vec<Tensor>,
    arena: Arena,
}

// SAFETY: the pointers in its descriptors are of the last call and are not followed: they are cleared before the next one.
unsafe impl Send for Frame {}

static SPARE: Mutex<Vec<Frame>> = Mutex::new(Vec::new());
static INSTANCES: AtomicUsize = AtomicUsize::new(0);

/// Counts a created instance.
pub(crate) fn one_more() {
    INSTANCES.fetch_add(1, Ordering::Relaxed);
}

/// Counts a dropped instance; the last one frees the frames.
pub(crate) fn one_less() {
    if INSTANCES.fetch_sub(1, Ordering::Relaxed) == 1 {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Frame {
    /// An unused frame.
    pub(crate) fn take() -> Frame {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Returns it to the pool.
    pub(crate) fn give(mut self) {
        self.sequences.clear();
        self.states.clear();
        self.slots.clear();
        self.arena.reset();
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// Memory for the rest of the call, with unspecified values; null if out of memory.
    pub(crate) fn scratch(&mut self, bytes: u64, align: u64) -> *mut c_void {
        let (Ok(bytes), Ok(align)) = (usize::try_from(bytes), usize::try_from(align)) else {
            return null_mut();
        };
        if !align.is_power_of_two() || align > 4096 {
            return null_mut();
        }
        self.arena.take(bytes, align).map_or(null_mut(), |memory| memory.as_ptr().cast())
    }
}

/// A bump allocator: pieces are allocated one by one and freed together.
#[derive(Default)]
struct Arena {
    chunks: Vec<Chunk>,
    /// Allocated bytes of the last chunk.
    used: usize,
}

struct Chunk {
    memory: NonNull<u8>,
    layout: Layout,
}

impl Chunk {
    fn new(bytes: usize) -> Option<Chunk> {
        let layout = Layout::from_size_align(bytes, ALIGN).ok()?;
        // Initialized, because a plugin may read it before it writes.
        // SAFETY: the layout has a size: at least `SMALLEST`.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Chunk { memory, layout })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl Arena {
    fn take(&mut self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        if let Some(chunk) = self.chunks.last() {
            let start = chunk.memory.as_ptr() as usize + self.used;
            let skipped = start.next_multiple_of(align) - start;
            let end = self.used.checked_add(skipped)?.checked_add(bytes)?;
            if end <= chunk.layout.size() {
                let at = self.used + skipped;
                self.used = end;
                // SAFETY: inside the chunk, whose size `end` does not exceed.
                return Some(unsafe { chunk.memory.add(at) });
            }
        }
        let wanted = bytes.checked_add(align)?.max(SMALLEST);
        let before = self.chunks.last().map_or(0, |chunk| chunk.layout.size());
        self.chunks.push(Chunk::new(wanted.max(before.saturating_mul(2)))?);
        self.used = 0;
        self.take(bytes, align)
    }

    /// Replaces all chunks by one chunk of their total size.
    fn reset(&mut self) {
        self.used = 0;
        if self.chunks.len() > 1 {
            let all = self.chunks.iter().map(|chunk| chunk.layout.size()).sum();
            self.chunks.clear();
            self.chunks.extend(Chunk::new(all));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The allocator often returns memory that was used before.
    #[test]
    fn scratch_has_values_before_it_is_written() {
        for bytes in [SMALLEST - 64, 300_000] {
            let used = std::hint::black_box(vec![0xA5u8; bytes + 64]);
            drop(used);
            let mut frame = Frame::default();
            let at = frame.scratch(bytes as u64, 64).cast::<u8>();
            // SAFETY: so many bytes of the frame's, all of which have values.
            let found = unsafe { std::slice::from_raw_parts(at, bytes) };
            assert!(found.iter().all(|byte| *byte == 0), "a piece of {bytes} bytes");
        }
    }

    #[test]
    fn scratch_is_apart_aligned_and_used_again() {
        let mut frame = Frame::default();
        let pieces: Vec<(usize, usize)> = [(10, 1), (100, 64), (300_000, 4096), (8, 8), (0, 1)]
            .into_iter()
            .map(|(bytes, align)| {
                let at = frame.scratch(bytes, align) as usize;
                assert!(at != 0 && at.is_multiple_of(align as usize));
                (at, at + bytes as usize)
            })
            .collect();
        for (index, one) in pieces.iter().enumerate() {
            assert!(pieces[index + 1..].iter().all(|other| one.1 <= other.0 || other.1 <= one.0));
        }
        assert!(frame.scratch(8, 3).is_null() && frame.scratch(u64::MAX, 1).is_null());
        frame.arena.reset();
        assert_eq!(frame.arena.chunks.len(), 1);
        assert!(!frame.scratch(300_000, 64).is_null());
        assert_eq!(frame.arena.chunks.len(), 1);
    }
}
