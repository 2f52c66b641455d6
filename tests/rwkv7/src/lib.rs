//! RWKV-7 with kinds that are linked in, as `core/` would have them, over the arithmetic of `plugins/rwkv7`.
//!
//! What the plugin is compared with: the same numbers must come out whichever way the arithmetic is reached, and nearly in
//! the same time. A binary that links this crate (`use menagerie_rwkv7_built_in as _;`) has the kinds `rwkv7-time-mixing` and
//! `rwkv7-channel-mixing`.
#![forbid(unsafe_code)]

mod channel_mixing;
mod shifted;
mod time_mixing;

pub use channel_mixing::ChannelMixingConfig;
pub use time_mixing::TimeMixingConfig;
