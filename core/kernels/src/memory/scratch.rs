//! A thread's own memory for tiles and running results.

use super::AlignedBytes;

/// Memory that belongs to one worker of a pool and is lent to each task in turn: every task finds what the previous one
/// left there.
#[derive(Default)]
pub(crate) struct Scratch {
    bytes: AlignedBytes,
}

impl Scratch {
    /// `len` bytes of any content, aligned to a cache line.
    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> &mut [u8] {
        if len > self.bytes.bytes().len() {
            self.bytes.resize(len);
        }
        &mut self.bytes.bytes_mut()[..len]
    }

    /// `len` floats of any content, aligned to a cache line.
    #[inline]
    pub(crate) fn floats(&mut self, len: usize) -> &mut [f32] {
        self.bytes(4 * len);
        &mut self.bytes.floats_mut()[..len]
    }
}
