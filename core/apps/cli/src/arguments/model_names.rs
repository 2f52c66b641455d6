//! [`ModelNames`]: short names of models, built in and from spec folders.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use crate::screen::report;
use menagerie::hub::{Catalog, Hub, HubSettings, ModelReference, Shadowing};
use menagerie::registry::FolderKind;

/// The built-in table combined with the tables of the spec folders.
pub(crate) struct ModelNames {
    pub(crate) catalog: Catalog,
    /// Notes to print where all names are listed.
    pub(crate) notes: Vec<String>,
}

impl ModelNames {
    /// Reads `models.toml` of every spec folder. An invalid table is an error, except in a project folder, which the user
    /// did not name: its table is left out with a note.
    pub(crate) fn read(specs: &SpecArguments) -> Result<Self, Failure> {
        let mut catalog = Catalog::built_in()?.clone();
        let mut notes = Vec::new();
        for folder in specs.folders() {
            let Some(table) = folder.models(specs.allow_shadow) else { continue };
            let name = table.path.display().to_string();
            let shadowing = if table.may_shadow { Shadowing::Replaces } else { Shadowing::AddsOnly };
            let added: Result<(), Failure> = match &table.text {
                Ok(text) => catalog.add(&name, text, shadowing).map_err(Failure::from),
                Err(reason) => Err(Failure::about(&name, reason)),
            };
            match added {
                Err(Failure::Failed(reason)) if table.folder == FolderKind::Project => {
                    notes.push(format!("the table in a project folder is ignored: {reason}"));
                }
                other => other?,
            }
        }
        let over = catalog.ignored.iter().map(|over| {
            let used = over
                .used
                .as_ref()
                .map_or("is built in".to_owned(), |used| format!("comes from {used} first"));
            let replaced = if over.used.is_none() { "; `--allow-shadow` replaces it" } else { "" };
            format!("{} of {} is ignored: the name {used}{replaced}", over.name, over.table)
        });
        notes.extend(over);
        Ok(Self { catalog, notes })
    }

    /// The model that an argument names. Prints the origin of a name that is not built in, and which other entries of that
    /// name are ignored.
    pub(crate) fn reference(&self, typed: &NameOrPath) -> Result<ModelReference, Failure> {
        let Some(text) = typed.name() else { return Ok(ModelReference::Path(typed.path().to_owned())) };
        let reference = self.hub().reference(text)?;
        if let ModelReference::ShortName(listed) = &reference {
            if let Some(table) = &listed.model.table {
                let repository = listed.model.repository.as_deref().unwrap_or("no repository");
                report::note(&format!("{} is {repository} (from {table})", listed.name()));
            }
            let own = format!("{} of ", listed.model.name);
            self.notes.iter().filter(|note| note.starts_with(&own)).for_each(|note| report::note(note));
        }
        Ok(reference)
    }

    /// The store of this machine, with these names.
    pub(crate) fn hub(&self) -> Hub {
        Hub::new(HubSettings::of_process()).with_catalog(self.catalog.clone())
    }
}
