//! Which architectures exist: built-in ones that crates register, and those that TOML files in spec folders declare.
//!
//! A crate submits an [`Architecture`]; `inventory` collects them at link time; [`Registry::load`] adds the spec folders.
//! Dispatch is a look-up by [`GGUFArchitecture`], never a `match`.
#![forbid(unsafe_code)]

mod architecture;
mod component;
mod error;
mod extension;
mod folder;
mod parts;
mod recipe_file;
mod registry;
mod sources;
mod table_file;
mod text_file;

pub use architecture::{Architecture, GGUFArchitecture};
pub use component::{
    ActivationFactory, Build, BuildActivation, BuildFeedForward, BuildMixer, BuildNorm, BuildRope, Component,
    Components, FeedForwardFactory, MixerFactory, NormFactory, NormPlace, RopeFactory, config_of,
};
pub use error::RegistryError;
pub use extension::{AddedTable, Extension, extend};
pub use folder::{FolderKind, SpecFolder};
pub use inventory;
pub use menagerie_spec as spec;
pub use parts::{Part, Parts, noted, where_given};
pub use recipe_file::{BuiltInRecipe, RecipeEntry};
pub use registry::{Entry, Origin, Registry, RegistryOptions};
pub use table_file::TableFile;

/// Registers an [`Architecture`] or a [`BuiltInRecipe`] of a crate: `register!(Architecture { .. })`.
#[macro_export]
macro_rules! register {
    ($architecture:expr) => {
        $crate::inventory::submit! { $architecture }
    };
}
