//! Bytes that start on a cache line, so that vector loads do not split lines.

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
