//! [`DiskCacheOptions`]: the limits of a disk cache.

use crate::setters::setters;
use std::time::Duration;

/// The limits of a [`crate::DiskCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskCacheOptions {
    /// The most bytes of all files in the folder, also those of other models and processes. When there are more, the
    /// files used least recently are removed.
    pub max_bytes: u64,
    /// Files that were not used for this long are removed. `None` = no limit.
    pub max_age: Option<Duration>,
    /// Tokens of a block. Caches with blocks of different sizes do not share files.
    pub block_tokens: usize,
}

setters! { DiskCacheOptions:
    with_max_bytes(max_bytes: u64),
    with_max_age(max_age: impl Into<Option<Duration>>),
    with_block_tokens(block_tokens: usize),
}

impl Default for DiskCacheOptions {
    /// 8 GiB, 30 days, and blocks of 64 tokens.
    fn default() -> Self {
        Self { max_bytes: 8 << 30, max_age: Some(Duration::from_secs(30 * 24 * 3600)), block_tokens: 64 }
    }
}
