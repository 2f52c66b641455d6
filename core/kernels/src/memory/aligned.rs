//! Bytes that start on a cache line, so that vector loads do not split lines.

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([u8; 64]);

/// Bytes at a 64-byte boundary.
#[derive(Default)]
pub(crate) struct AlignedBytes {
    lines: Vec<CacheLine>,
    len: usize,
}

impl AlignedBytes {
    /// `len` zero bytes.
    pub(crate) fn new(len: usize) -> Self {
        AlignedBytes { lines: vec![CacheLine([0; 64]); len.div_ceil(64)], len }
    }

    /// How many bytes there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.lines.len() * 64
    }

    /// Resizes it to `len` bytes; the contents are unspecified (old or zero) afterwards.
    pub(crate) fn resize(&mut self, len: usize) {
        if len > self.capacity() {
            *self = AlignedBytes::new(len);
        }
        self.len = len;
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `lines` holds at least `len` initialized bytes (`new`, `resize`), and u8 has no alignment.
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

    /// All whole groups of two as u16.
    pub(crate) fn halves(&self) -> &[u16] {
        // SAFETY: as in `bytes`; a line is aligned for a u16, whose bits are all valid.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len / 2) }
    }

    /// All whole groups of two as u16, mutably.
    pub(crate) fn halves_mut(&mut self) -> &mut [u16] {
        // SAFETY: as in `halves`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len / 2) }
    }

    /// All whole groups of four as f32, mutably.
    pub(crate) fn floats_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `bytes_mut`; a line is aligned for an f32, whose bits are all valid.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len / 4) }
    }
}
