//! The `starcoder2` architecture: registers `specs/starcoder2.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const STARCODER2: GGUFArchitecture = GGUFArchitecture::from_static("starcoder2");

register!(Architecture {
    name: STARCODER2,
    spec: include_str!("../starcoder2.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
