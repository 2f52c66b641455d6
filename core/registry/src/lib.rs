//! Which architectures exist: built-in ones that crates register, and those that TOML files in spec folders declare.
//!
//! A crate submits an [`Architecture`]; `inventory` collects them at link time; [`Registry::load`] adds the spec folders.
//! Dispatch is a look-up by [`GGUFArchitecture`], never a `match`.
#![forbid(unsafe_code)]

pub mod architecture;
pub mod error;
pub mod folder;
pub mod registry;

pub use architecture::{Architecture, GGUFArchitecture};
pub use error::RegistryError;
pub use folder::{FolderKind, SpecFolder};
pub use inventory;
pub use registry::{Entry, Origin, Registry, RegistryOptions};

/// Registers an [`Architecture`] of a crate: `register!(Architecture { .. })`.
#[macro_export]
macro_rules! register {
    ($architecture:expr) => {
        $crate::inventory::submit! { $architecture }
    };
}
