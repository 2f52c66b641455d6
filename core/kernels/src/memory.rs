//! Memory that is reused: fresh pages cost a fault for every 4 KiB.

mod aligned;
mod buffers;
mod scratch;
mod zeroed;

pub(crate) use aligned::AlignedBytes;
pub(crate) use buffers::{Buffer, Buffers};
pub(crate) use scratch::Scratch;
pub use zeroed::{Zero, Zeroed};
