//! The `mistral3` architecture: registers `specs/mistral3.toml`.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Its name in files.
pub const MISTRAL3: GGUFArchitecture = GGUFArchitecture::from_static("mistral3");

register!(Architecture {
    name: MISTRAL3,
    spec: include_str!("../mistral3.toml"),
    registered_by: env!("CARGO_PKG_NAME"),
});
