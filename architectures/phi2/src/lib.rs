//! The `phi2` architecture: registers `specs/phi2.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const PHI2: GGUFArchitecture = GGUFArchitecture::from_static("phi2");

register!(Architecture {
    name: PHI2,
    spec: include_str!("../phi2.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
