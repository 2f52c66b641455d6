//! The host of plugins: inspects and opens plugins, and registers their kinds and architectures like any other.
//!
//! [`inspect`] reads the manifest of a file without running its code. After registration, only the text about the origin
//! of a kind says that it comes from a plugin.

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
