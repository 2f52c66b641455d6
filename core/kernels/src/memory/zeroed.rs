//! Zeroed memory that may be refused.

use std::alloc::{Layout, alloc_zeroed};

/// Numbers for which all bits zero are a value.
///
/// # Safety
/// All bits zero are a valid value, and the type has a size.
pub unsafe trait Zero: Copy {}

// SAFETY: zero is a byte.
unsafe impl Zero for u8 {}
// SAFETY: all bits zero are the float 0.
unsafe impl Zero for f32 {}

/// `len` zeros as the system hands them out, so that what nobody writes to costs no memory; `None` where it has no room.
///
/// `vec![0; len]` does the same but ends the process if there is no room, and asking with `try_reserve` first leaves
/// memory behind in the heap that then has to be cleared by hand.
pub fn try_zeroed<T: Zero>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the layout has a size.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        return None;
    }
    // SAFETY: the global allocator gave `len` values of this layout, and zero bits are values (`Zero`).
    Some(unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use super::try_zeroed;

    #[test]
    fn zeros_or_nothing() {
        assert_eq!(try_zeroed::<f32>(5).unwrap(), [0.0; 5]);
        assert_eq!(try_zeroed::<u8>(0).unwrap(), []);
        assert!(try_zeroed::<f32>(usize::MAX / 8).is_none());
        assert!(try_zeroed::<f32>(usize::MAX).is_none());
    }
}
