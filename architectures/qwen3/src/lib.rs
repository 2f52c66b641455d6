//! The `qwen3` architecture: registers `specs/qwen3.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const QWEN3: GGUFArchitecture = GGUFArchitecture::from_static("qwen3");

register!(Architecture {
    name: QWEN3,
    spec: include_str!("../qwen3.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
