//! The `qwen2` architecture: registers `specs/qwen2.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const QWEN2: GGUFArchitecture = GGUFArchitecture::from_static("qwen2");

register!(Architecture {
    name: QWEN2,
    spec: include_str!("../qwen2.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
