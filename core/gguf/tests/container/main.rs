//! The container: reading, writing, refusing.

// Tests fail by panicking; clippy's own exception covers only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[cfg(unix)]
mod alive;
mod errors;
mod fixtures;
mod foreign;
mod memory;
mod raw;
mod round_trip;
mod split;
mod writer;
