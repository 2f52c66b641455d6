//! [`Cancellation`]: how a forward is ended from outside.

use std::sync::atomic::{AtomicBool, Ordering};

/// Flags that cancel a forward, which may compute for several owners: it ends at the next layer once all of them are
/// set. Without flags it cannot be cancelled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cancellation<'a>(&'a [&'a AtomicBool]);

impl<'a> Cancellation<'a> {
    /// Cancelled by all of these flags together.
    pub fn by_all(flags: &'a [&'a AtomicBool]) -> Self {
        Self(flags)
    }

    /// Whether there are flags and all of them are set.
    pub fn is_requested(self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|flag| flag.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_needs_every_flag_and_at_least_one() {
        let flags = [AtomicBool::new(false), AtomicBool::new(false)];
        let both = flags.each_ref();
        assert!(!Cancellation::default().is_requested());
        for (at, expected) in [(0, false), (1, true)] {
            flags[at].store(true, Ordering::Relaxed);
            assert_eq!(Cancellation::by_all(&both).is_requested(), expected);
        }
    }
}
