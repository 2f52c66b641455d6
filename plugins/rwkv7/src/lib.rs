//! RWKV-7 (Peng et al., 2025, "RWKV-7 Goose") as a plugin of Menagerie: a real architecture that specs alone cannot say.
//!
//! A block of it has no attention. Its mixer ([`TimeMixing`]) mixes every token with the one before it, and changes a matrix of
//! state per head by a delta rule; its feed-forward ([`ChannelMixing`]) has a state too, the row before. Values of the first
//! block are mixed into those of later ones, which a slot carries. What multiplies stays the host's: it is quantized there,
//! adapters reach it, and it runs on the host's threads. The plugin has what is between: [`math`], over slices.
//!
//! The specs of `rwkv7` and `arwkv7` (Qwen2's blocks with this mixer) are carried along. Built as a library it is loaded with
//! `--plugin-dir`; with the feature `static` it is linked into a program (`use menagerie_rwkv7 as _;`).

mod channel_mixing;
pub mod math;
mod shifted;
mod time_mixing;
mod world;

pub use channel_mixing::ChannelMixing;
pub use time_mixing::{TimeMixing, TimeMixingOptions};
pub use world::World;

use menagerie_plugin::abi::capability;

menagerie_plugin::export! {
    id: "menagerie/rwkv7",
    components: [mixer TimeMixing, feed_forward ChannelMixing, tokenizer World],
    architectures: ["../rwkv7.toml", "../arwkv7.toml"],
    requires: capability::LINEARS | capability::PARALLEL_FOR | capability::STATES | capability::SLOTS,
}
