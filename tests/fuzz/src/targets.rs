//! [`TARGETS`]: the readers under test.

mod block_file;
mod gguf;
mod safetensors;
mod spec;
mod stage_frame;
mod state_file;
mod template;
mod tokenizer;

use crate::Target;
use std::path::PathBuf;

/// Every target.
pub const TARGETS: [Target; 8] = [
    gguf::TARGET,
    safetensors::TARGET,
    spec::TARGET,
    template::TARGET,
    tokenizer::TARGET,
    state_file::TARGET,
    block_file::TARGET,
    stage_frame::TARGET,
];

/// A folder of the repository.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(name)
}

/// A file of the repository; nothing if it is not there.
fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder(name)).unwrap_or_default()
}
