//! The `phi3` architecture: registers `specs/phi3.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const PHI3: GGUFArchitecture = GGUFArchitecture::from_static("phi3");

register!(Architecture {
    name: PHI3,
    spec: include_str!("../phi3.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
