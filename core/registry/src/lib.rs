//! Everything that is installed, as one value: [`Environment`].
//!
//! A crate registers an [`Architecture`], a kind ([`component!`]), a [`BuiltInRecipe`] or an entry of another family with
//! [`register!`]; [`Environment::linked`] collects what is linked into the program. Spec folders and plugins extend it.
//! Everything is looked up by name, never by a `match`.
#![forbid(unsafe_code)]

mod architecture;
mod architectures;
mod component;
mod environment;
mod error;
mod folder;
mod folder_kind;
mod origin;
mod parts;
mod recipe_file;
mod sources;
mod table_file;
mod text_file;

pub use architecture::{Architecture, GGUFArchitecture};
pub use architectures::ArchitectureEntry;
#[doc(hidden)]
pub use component::config_of;
pub use component::{ComponentEntry, ComponentFactory, Components, NormTarget};
pub use environment::{Environment, SpecFolders};
pub use error::RegistryError;
pub use folder::SpecFolder;
pub use folder_kind::FolderKind;
pub use menagerie_entries::{DuplicateName, Entries, Entry, register};
#[doc(hidden)]
pub use menagerie_spec as spec;
pub use origin::Origin;
pub use parts::{BuildResult, ComponentParts, ReportedFault, TensorPart, or_fault};
pub use recipe_file::{BuiltInRecipe, RecipeEntry};
pub use table_file::{BuiltInTable, TableFile};
