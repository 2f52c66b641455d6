//! The large buffers of a step, kept between steps.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use super::AlignedBytes;

/// How many buffers are kept.
const KEPT: usize = 12;
/// The most bytes of a buffer that is kept.
const LARGEST: usize = 32 << 20;

/// Returned buffers; a pool has one such store.
#[derive(Default)]
pub(crate) struct Buffers {
    free: Mutex<Vec<AlignedBytes>>,
}

impl Buffers {
    /// `len` bytes of any content, from a returned buffer if one fits without much waste.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Buffer {
        let fits = |bytes: &AlignedBytes| (len..=4 * len + 4096).contains(&bytes.capacity());
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        // The buffer that was returned last is most likely in a cache.
        let found = free.iter().rposition(fits).map(|at| free.remove(at));
        drop(free);
        let mut bytes = found.unwrap_or_default();
        bytes.resize(len);
        Buffer { bytes, home: Arc::clone(self) }
    }

    fn give_back(&self, bytes: AlignedBytes) {
        if bytes.capacity() == 0 || bytes.capacity() > LARGEST {
            return;
        }
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() == KEPT {
            free.remove(0);
        }
        free.push(bytes);
    }
}

/// Bytes that return to their store when they are dropped.
pub(crate) struct Buffer {
    bytes: AlignedBytes,
    home: Arc<Buffers>,
}

impl Deref for Buffer {
    type Target = AlignedBytes;

    fn deref(&self) -> &AlignedBytes {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut AlignedBytes {
        &mut self.bytes
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_of_about_the_size_is_used_again() {
        let buffers = Arc::new(Buffers::default());
        let first = buffers.take(100_000);
        let place = first.bytes().as_ptr();
        drop(first);
        let again = buffers.take(60_000);
        assert_eq!((again.bytes().as_ptr(), again.bytes().len()), (place, 60_000));
        assert_ne!(buffers.take(60_000).bytes().as_ptr(), place);
        drop(again);
        assert_ne!(buffers.take(64).bytes().as_ptr(), place, "far too large");
        assert_ne!(buffers.take(200_000).bytes().as_ptr(), place, "too small");
    }

    #[test]
    fn only_so_many_are_kept() {
        let buffers = Arc::new(Buffers::default());
        drop((0..40).map(|_| buffers.take(4096)).collect::<Vec<_>>());
        drop(buffers.take(LARGEST + 1));
        assert_eq!(buffers.free.lock().unwrap().len(), KEPT);
    }
}
