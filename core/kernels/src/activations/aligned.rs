//! Bytes that start on a cache line, so that vector loads do not split lines.

use std::cell::RefCell;

/// How many buffers a thread keeps for reuse, and the most bytes of one.
const KEPT: (usize, usize) = (6, 32 << 20);

thread_local! {
    /// Buffers given back: a fresh one of megabytes would cost a page fault for every 4 KiB.
    static STASH: RefCell<Vec<AlignedBytes>> = const { RefCell::new(Vec::new()) };
}

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Zero-initialised bytes at a 64-byte boundary.
#[derive(Default)]
pub(crate) struct AlignedBytes {
    lines: Vec<Line>,
    len: usize,
}

impl AlignedBytes {
    /// `len` zero bytes.
    pub(crate) fn new(len: usize) -> Self {
        AlignedBytes { lines: vec![Line([0; 64]); len.div_ceil(64)], len }
    }

    /// `len` bytes with unspecified contents, from a buffer that this thread gave back if one fits.
    pub(crate) fn reused(len: usize) -> Self {
        let kept = STASH.try_with(|stash| {
            let mut stash = stash.try_borrow_mut().ok()?;
            let fits = |b: &AlignedBytes| (len..=4 * len + 4096).contains(&(b.lines.len() * 64));
            let at = stash.iter().position(fits)?;
            Some(stash.swap_remove(at))
        });
        match kept {
            Ok(Some(buffer)) => AlignedBytes { lines: buffer.lines, len },
            _ => AlignedBytes::new(len),
        }
    }

    /// Keeps the buffer for `reused`.
    pub(crate) fn give_back(self) {
        if self.lines.len() * 64 > KEPT.1 || self.lines.is_empty() {
            return;
        }
        // During the thread's end there is no stash any more: the buffer is then freed.
        let _ = STASH.try_with(|stash| {
            if let Ok(mut stash) = stash.try_borrow_mut() {
                stash.push(self);
                if stash.len() > KEPT.0 {
                    stash.remove(0);
                }
            }
        });
    }

    /// Makes it at least `len` bytes long; contents are unspecified (old or zero) afterwards.
    pub(crate) fn grow(&mut self, len: usize) {
        if len > self.len {
            *self = AlignedBytes::new(len);
        }
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `lines` holds at least `len` initialised bytes (`new`), and u8 has no alignment.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }

    /// All bytes, mutably.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }

    /// All bytes as i8.
    pub(crate) fn signed(&self) -> &[i8] {
        // SAFETY: as in `bytes`; i8 and u8 have the same layout.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }

    /// The first `bytes` bytes, and all whole groups of four after them as f32 (any bits are valid). `bytes` is a
    /// multiple of 64.
    pub(crate) fn split(&mut self, bytes: usize) -> (&mut [u8], &mut [f32]) {
        let (first, rest) = self.bytes_mut().split_at_mut(bytes / 64 * 64);
        // SAFETY: `rest` starts on a multiple of 64 bytes after an address aligned to 64, and `rest.len() / 4` floats
        // lie inside; any bits are a valid f32.
        let floats = unsafe { std::slice::from_raw_parts_mut(rest.as_mut_ptr().cast(), rest.len() / 4) };
        (first, floats)
    }
}
