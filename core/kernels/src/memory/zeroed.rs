//! Zeroed memory whose allocation may fail, and of which only written pages cost memory.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Numbers for which all bits zero are a value.
///
/// # Safety
/// All bits zero are a valid value, and the type has a size of at most a page.
pub unsafe trait Zero: Copy + Send + Sync {}

// SAFETY: zero is a byte.
unsafe impl Zero for u8 {}
// SAFETY: all bits zero are the float 0.
unsafe impl Zero for f32 {}

/// Zeroed memory from the system: a page takes no memory until it is written, even if the process has allocated and
/// freed such memory before. (`vec![0; len]` aborts the process if memory is lacking, and clears heap memory that was
/// used before.)
pub struct Zeroed<T: Zero> {
    start: NonNull<T>,
    len: usize,
}

// SAFETY: it owns its memory alone, and `T` may be sent.
unsafe impl<T: Zero> Send for Zeroed<T> {}
// SAFETY: shared access only reads, and `T` may be shared.
unsafe impl<T: Zero> Sync for Zeroed<T> {}

impl<T: Zero> Zeroed<T> {
    /// `len` zeros; `None` where the system has no room for them.
    pub fn new(len: usize) -> Option<Self> {
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize)?;
        let start = if bytes == 0 { NonNull::dangling() } else { pages(bytes)?.cast() };
        Some(Self { start, len })
    }
}

impl<T: Zero> Deref for Zeroed<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` values of zero bits or written ones (`Zero`), at a page or dangling for none.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zero> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zero> Drop for Zeroed<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        if bytes > 0 {
            // SAFETY: from `pages` with as many bytes, and no borrow of it exists any more.
            unsafe { give_back(self.start.cast(), bytes) }
        }
    }
}

/// Pages of the system, not of the heap.
#[cfg(unix)]
fn pages(bytes: usize) -> Option<NonNull<u8>> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new anonymous mapping at any address.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    (start != libc::MAP_FAILED).then(|| NonNull::new(start.cast()))?
}

/// Unmaps pages.
///
/// # Safety
/// They are from `pages` with as many bytes, and nothing uses them.
#[cfg(unix)]
unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    // SAFETY: the promise of the caller.
    unsafe { libc::munmap(start.as_ptr().cast(), bytes) };
}

/// How memory is laid out where there is no `mmap`.
#[cfg(not(unix))]
fn layout(bytes: usize) -> Option<std::alloc::Layout> {
    std::alloc::Layout::from_size_align(bytes, 16).ok()
}

#[cfg(not(unix))]
fn pages(bytes: usize) -> Option<NonNull<u8>> {
    // SAFETY: the layout has a size (`Zeroed::new`).
    NonNull::new(unsafe { std::alloc::alloc_zeroed(layout(bytes)?) })
}

/// Frees memory.
///
/// # Safety
/// It is from `pages` with as many bytes, and nothing uses it.
#[cfg(not(unix))]
unsafe fn give_back(start: NonNull<u8>, bytes: usize) {
    if let Some(layout) = layout(bytes) {
        // SAFETY: the promise of the caller; the layout is that of `pages`.
        unsafe { std::alloc::dealloc(start.as_ptr(), layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::Zeroed;

    #[test]
    fn zeros_or_nothing() {
        let mut values = Zeroed::<f32>::new(5).unwrap();
        assert_eq!(*values, [0.0; 5]);
        values[4] = 2.0;
        assert_eq!(*values, [0.0, 0.0, 0.0, 0.0, 2.0]);
        assert_eq!(*Zeroed::<u8>::new(0).unwrap(), []);
        assert!(Zeroed::<f32>::new(usize::MAX / 8).is_none());
        assert!(Zeroed::<f32>::new(usize::MAX).is_none());
    }
}
