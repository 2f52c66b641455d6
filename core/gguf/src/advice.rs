//! Hints to the system about how mapped bytes will be read.

/// How mapped bytes will be read (madvise); files in memory take no notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// As usual.
    Normal,
    /// Soon: reading ahead begins in the background (`MADV_WILLNEED`).
    WillNeed,
    /// From the beginning to the end (`MADV_SEQUENTIAL`).
    Sequential,
    /// Here and there: no reading ahead (`MADV_RANDOM`).
    Random,
}

#[cfg(unix)]
impl From<Advice> for memmap2::Advice {
    fn from(advice: Advice) -> Self {
        match advice {
            Advice::Normal => Self::Normal,
            Advice::WillNeed => Self::WillNeed,
            Advice::Sequential => Self::Sequential,
            Advice::Random => Self::Random,
        }
    }
}
