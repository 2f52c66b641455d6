//! [`Extension`]: what is added to the registry at run time, and [`extend`], which adds it.

use crate::architecture::Architecture;
use crate::component::{Component, Components};
use crate::error::RegistryError;
use crate::folder::FolderKind;
use crate::registry::{Registry, RegistryOptions};
use crate::table_file::TableFile;
use std::sync::{Mutex, PoisonError};

/// Components, architectures and tables that were not linked in; they last as long as the process, like those that were.
#[derive(Clone, Debug, Default)]
pub struct Extension {
    /// Components, each named by who brings them.
    pub components: Vec<Component>,
    /// Architectures, each named by who brings them.
    pub architectures: Vec<Architecture>,
    /// Tables of vocabularies and chats.
    pub tables: Vec<AddedTable>,
}

/// A table of vocabularies or chats that was not linked in.
#[derive(Clone, Copy, Debug)]
pub struct AddedTable {
    /// Name of the file it would be in a spec folder.
    pub file: &'static str,
    /// Its text, TOML.
    pub text: &'static str,
    /// Who brings it, for listings.
    pub registered_by: &'static str,
}

impl AddedTable {
    /// As those of spec folders, among which it replaces nothing.
    pub(crate) fn as_file(&self) -> TableFile {
        TableFile {
            path: format!("{} of {}", self.file, self.registered_by).into(),
            folder: FolderKind::Plugin,
            text: Ok(self.text.to_owned()),
            may_shadow: false,
        }
    }
}

static ADDED: Mutex<Vec<Extension>> = Mutex::new(Vec::new());

/// Everything that was added, in that order.
pub(crate) fn all() -> Vec<Extension> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds an extension to what every registry made from here on has: all of it, or nothing.
///
/// # Errors
/// A kind or an architecture that is there already, a kind whose table contradicts itself, a spec with faults.
pub fn extend(extension: Extension) -> Result<(), RegistryError> {
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    let ids: Vec<String> = extension.architectures.iter().map(|one| one.name.to_string()).collect();
    let mut together = added.clone();
    together.push(extension);
    Components::with(&together)?.kinds()?;
    if !ids.is_empty() {
        let registry = Registry::load_with(&RegistryOptions::default(), &together)?;
        for entry in registry.entries().iter().filter(|entry| ids.contains(&entry.id)) {
            entry.spec().clone()?;
        }
    }
    *added = together;
    Ok(())
}
