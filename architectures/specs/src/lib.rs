//! The built-in architectures that are a spec and nothing else: embeds and registers `specs/<id>.toml`, one per line.
//!
//! `specs` of this package is a link to the folder of the same name, so that the package is whole. To build in a new
//! architecture: put its spec there and its id below.
#![forbid(unsafe_code)]

use menagerie_registry::{Architecture, GGUFArchitecture, register};

/// Registers `specs/<id>.toml` for each id.
macro_rules! built_in {
    ($($id:literal)*) => {
        /// The ids that are registered here, in the order of the list.
        pub const IDS: &[&str] = &[$($id),*];

        $(register!(Architecture {
            name: GGUFArchitecture::from_static($id),
            spec: include_str!(concat!("../specs/", $id, ".toml")),
            registered_by: env!("CARGO_PKG_NAME"),
        });)*
    };
}

built_in! {
    "lfm2"
    "smollm3"
}
