//! The `qwen3moe` architecture: registers `specs/qwen3moe.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const QWEN3MOE: GGUFArchitecture = GGUFArchitecture::from_static("qwen3moe");

register!(Architecture {
    name: QWEN3MOE,
    spec: include_str!("../qwen3moe.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
