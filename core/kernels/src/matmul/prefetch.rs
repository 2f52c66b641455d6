//! Prefetching: weights are read once, in a known order.

use crate::blocks::Matrix;

/// How far ahead the one-row kernels prefetch, in bytes. Measured on two Zen machines: 3 to 6 KiB are equally fast,
/// less and more are slower; without prefetching one thread loses a sixth to a third of its rate.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 4096;

/// Prefetches the lines that hold the `bytes` bytes at some distance after `p`; invalid addresses do no harm.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn prefetch(p: *const u8, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let mut at = 0;
    while at < bytes {
        // SAFETY: a prefetch accesses no memory that the program can observe, and x86-64 always has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD + at).cast()) };
        at += 64;
    }
}

/// The blocks that the many-row kernels unpack next, prefetched in small portions while the current tile is multiplied:
/// rows are pages apart, where no hardware prefetches.
#[derive(Clone, Copy)]
pub(super) struct NextTile<'a> {
    w: Matrix<'a>,
    /// The next row to prefetch, and the end.
    rows: (usize, usize),
    /// The bytes of a row to read.
    bytes: (usize, usize),
    /// The next byte of the row.
    at: usize,
}

impl<'a> NextTile<'a> {
    /// The columns `columns` of the rows `rows`, both limited to the matrix.
    pub(super) fn new(w: Matrix<'a>, rows: (usize, usize), columns: (usize, usize)) -> NextTile<'a> {
        let (len, bytes) = (w.block().block_len(), w.block().block_bytes());
        let (start, end) = (columns.0.min(w.cols()), columns.1.min(w.cols()));
        let bytes = (start / len * bytes, end.div_ceil(len) * bytes);
        NextTile { w, rows: (rows.0, rows.1.min(w.rows())), bytes, at: bytes.0 }
    }

    /// The approximate number of lines of 64 bytes.
    pub(super) fn lines(&self) -> usize {
        (self.rows.1.saturating_sub(self.rows.0)) * (self.bytes.1 - self.bytes.0).div_ceil(64)
    }

    /// Prefetches so many lines.
    #[inline(always)]
    pub(super) fn ask(&mut self, lines: usize) {
        for _ in 0..lines {
            if self.rows.0 >= self.rows.1 {
                return;
            }
            line(self.w.bytes().as_ptr().wrapping_add(self.rows.0 * self.w.row_bytes() + self.at));
            self.at += 64;
            if self.at >= self.bytes.1 {
                (self.rows.0, self.at) = (self.rows.0 + 1, self.bytes.0);
            }
        }
    }
}

/// Prefetches one line into the second-level cache.
#[inline(always)]
fn line(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch accesses no memory that the program can observe, and x86-64 always has it.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the instruction belongs to the target's baseline.
    unsafe {
        std::arch::asm!("prfm pldl2keep, [{p}]", p = in(reg) p, options(nostack, readonly, preserves_flags));
    }
}
