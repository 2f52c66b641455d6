//! [`ModelNames`]: models by a short name, the program's and those of spec folders.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use crate::screen::report;
use menagerie::hub::{Catalog, Hub, HubSettings, ModelReference, Shadowing};
use menagerie::registry::FolderKind;

/// The program's table with those of the spec folders laid over it.
pub(crate) struct ModelNames {
    pub(crate) catalog: Catalog,
    /// What must be said where all names are listed.
    pub(crate) notes: Vec<String>,
}

impl ModelNames {
    /// Reads `models.toml` of every spec folder. A fault is an error, but not in a project folder, which is read unasked: its
    /// table is left out with a note.
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
                    notes.push(format!("the table of a project folder is left out: {reason}"));
                }
                other => other?,
            }
        }
        let over = catalog.passed_over.iter().map(|over| {
            let used =
                over.used.as_ref().map_or("built in".to_owned(), |used| format!("named by {used} first"));
            let replaced = if over.used.is_none() { "; `--allow-shadow` replaces it" } else { "" };
            format!("{} of {} is not used: it is {used}{replaced}", over.name, over.table)
        });
        notes.extend(over);
        Ok(Self { catalog, notes })
    }

    /// What a text means; says where a name comes from that is not the program's, and what was passed over for it.
    pub(crate) fn reference(&self, typed: &NameOrPath) -> Result<ModelReference, Failure> {
        let Some(text) = typed.name() else { return Ok(ModelReference::Path(typed.path().to_owned())) };
        let reference = self.hub().reference(text)?;
        if let ModelReference::Listed(listed) = &reference {
            if let Some(table) = &listed.model.table {
                let repository = listed.model.repository.as_deref().unwrap_or("no repository");
                report::note(&format!("{} is {repository}, as {table} says", listed.name()));
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
