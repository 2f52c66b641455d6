//! The `llama` architecture: registers `specs/llama.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const LLAMA: GGUFArchitecture = GGUFArchitecture::from_static("llama");

register!(Architecture {
    name: LLAMA,
    spec: include_str!("../llama.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
