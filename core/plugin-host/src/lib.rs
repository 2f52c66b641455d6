//! Plugins: looked at, trusted or not, opened, and made into kinds and architectures like any other.
//!
//! [`inspect`] reads what a file says of itself; nothing of it runs. Past registration nothing knows that a kind comes from a
//! plugin, but by the text that says who registered it.

mod bridge;
mod building;
mod calling;
mod component;
mod cpu;
mod detached;
mod error;
mod finite;
mod hook;
mod inspect;
mod instance;
mod kind;
mod lock;
mod manifest;
mod opening;
mod operands;
mod output_check;
mod plugin;
mod registering;
mod sampler;
mod scratch;
mod services;
mod texts;
mod tokenizer;
mod trust;

pub use error::{PluginError, PluginFault};
pub use inspect::{inspect, inspect_bytes};
pub use lock::{Lock, LockError};
pub use manifest::{PanicStrategy, PluginManifest};
pub use opening::{PluginLoadOptions, files_of, load, sha256_of, with_linked_plugins};
pub use output_check::{OutputCheck, watch};
pub use plugin::{LoadedPlugin, PluginComponent, PluginLocation, loaded};
