//! [`Environment`]: everything that is installed, as a value.

use crate::architecture::{Architecture, GGUFArchitecture};
use crate::architectures::{ArchitectureEntry, Architectures};
use crate::component::Components;
use crate::error::RegistryError;
use crate::folder::SpecFolder;
use crate::folder_kind::FolderKind;
use crate::recipe_file::{self, RecipeEntry};
use crate::sources::{Sources, Text, place, read, registered_texts};
use crate::table_file::{BuiltInTable, TableFile};
use menagerie_entries::{Entries, Entry};
use menagerie_spec::ArchSpec;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Spec folders that an environment is extended with.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SpecFolders {
    /// The folders, most important first: of two files with the same name the one in the earlier folder is used.
    pub folders: Vec<SpecFolder>,
    /// Whether a file may replace a built-in spec of the same name. A file of a project folder never may; a file that was
    /// named with `--spec` always may.
    pub allow_shadow: bool,
}

impl SpecFolders {
    /// The same with this [`Self::folders`].
    #[must_use]
    pub fn with_folders(self, folders: Vec<SpecFolder>) -> Self {
        Self { folders, ..self }
    }

    /// The same with this [`Self::allow_shadow`].
    #[must_use]
    pub fn with_allow_shadow(self, allow_shadow: bool) -> Self {
        Self { allow_shadow, ..self }
    }
}

/// Everything that is installed: architectures, kinds, recipes, tables, samplers, hooks, tokenizers, devices, file formats.
///
/// It is made from what is linked into the program ([`Environment::linked`]), extended with spec folders and with the
/// entries of plugins, and passed to whatever opens a model. Extending returns another environment and leaves the first
/// one as it is. A clone is a pointer. Two things of one family that have one name are refused with both origins, however
/// they came.
#[derive(Clone, Debug)]
pub struct Environment(Arc<Installed>);

/// The content of an environment.
#[derive(Debug)]
struct Installed {
    /// Entries of the crates of this program.
    linked: Entries,
    /// Entries that were added afterwards, in order.
    added: Entries,
    folders: Vec<SpecFolders>,
    /// The entries of both.
    entries: Entries,
    sources: Arc<Sources>,
    /// Made of the sources when an architecture is first looked up: it reads the heading of every spec.
    architectures: OnceLock<Architectures>,
    components: Components,
    tables: Vec<TableFile>,
    recipes: Vec<RecipeEntry>,
    notes: Vec<String>,
}

impl Environment {
    /// What the crates of this program register.
    ///
    /// # Errors
    /// A name that two crates register in one family; a kind whose table contradicts itself.
    pub fn linked() -> Result<Self, RegistryError> {
        let installed = Installed::new(Entries::linked()?, Entries::default(), Vec::new())?;
        Ok(Self(Arc::new(installed)))
    }

    /// The environment with the specs, tables and recipes of these folders, which come after folders that it has already.
    ///
    /// Of one name, the file in the earliest folder is used, and a built-in spec before any file unless
    /// [`SpecFolders::allow_shadow`]; the files that are not used are in [`ArchitectureEntry::passed_over`]. A file with
    /// faults does not stop the others: the faults are kept in its entry and returned when its spec is asked for. A data or
    /// project folder that cannot be read is in [`Self::notes`].
    ///
    /// # Errors
    /// A folder that was asked for and cannot be read.
    pub fn with_spec_folders(&self, folders: SpecFolders) -> Result<Self, RegistryError> {
        let Installed { linked, added, folders: earlier, .. } = &*self.0;
        let folders = earlier.iter().cloned().chain([folders]).collect();
        Ok(Self(Arc::new(Installed::new(linked.clone(), added.clone(), folders)?)))
    }

    /// The environment with more entries: all of them, or an error.
    ///
    /// # Errors
    /// A name that is there already, a kind whose table contradicts itself, a spec with faults.
    pub fn with(&self, entries: Entries) -> Result<Self, RegistryError> {
        let ids: Vec<String> = entries.all::<Architecture>().iter().map(|one| one.name.to_string()).collect();
        let Installed { linked, added, folders, .. } = &*self.0;
        let added = added.with(&entries)?;
        // Without folders, whose files may stand in the place of the new specs.
        let installed = Installed::new(linked.clone(), added.clone(), Vec::new())?;
        if !ids.is_empty() {
            for entry in installed.architectures().all().iter().filter(|entry| ids.contains(&entry.id)) {
                entry.spec().clone()?;
            }
        }
        let installed = match folders.is_empty() {
            true => installed,
            false => Installed::new(linked.clone(), added, folders.clone())?,
        };
        Ok(Self(Arc::new(installed)))
    }

    /// The entries of every family, for look-ups by type and name: [`Entries::all`], [`Entries::get`].
    pub fn entries(&self) -> &Entries {
        &self.0.entries
    }

    /// The entries of a type, [`Entries::all`].
    pub fn all<T: Entry>(&self) -> &[T] {
        self.0.entries.all()
    }

    /// The factories of kinds.
    pub fn components(&self) -> &Components {
        &self.0.components
    }

    /// Every architecture, built-in ones first, then by folder; faulty ones included.
    pub fn architectures(&self) -> &[ArchitectureEntry] {
        self.0.architectures().all()
    }

    /// The architecture of this id, faulty or not.
    pub fn architecture(&self, id: &str) -> Option<&ArchitectureEntry> {
        self.architectures().iter().find(|entry| entry.id == id)
    }

    /// The names that architectures have in files, sorted.
    pub fn architecture_names(&self) -> impl Iterator<Item = &str> {
        self.0.architectures().names()
    }

    /// The architecture and spec of a name in a file.
    ///
    /// # Errors
    /// An unknown name (with the nearest name), or a faulty spec.
    pub fn resolve(
        &self,
        name: &GGUFArchitecture,
    ) -> Result<(&ArchitectureEntry, Arc<ArchSpec>), RegistryError> {
        self.0.architectures().resolve(name)
    }

    /// The architectures and specs of a class of config.json. Where several have the class, the keys and tensors of a model
    /// decide between them; one whose file was named with `--spec` is the only one.
    ///
    /// # Errors
    /// An unknown class (with the nearest class), or a faulty spec.
    pub fn of_class(&self, class: &str) -> Result<Vec<(&ArchitectureEntry, Arc<ArchSpec>)>, RegistryError> {
        self.0.architectures().of_class(class)
    }

    /// The tables of vocabularies and chats that were added and those of the spec folders, most important first.
    pub fn tables(&self) -> &[TableFile] {
        &self.0.tables
    }

    /// Every recipe, built-in ones first, then by folder; faulty ones included.
    pub fn recipes(&self) -> &[RecipeEntry] {
        &self.0.recipes
    }

    /// The recipe of this name, faulty or not.
    pub fn recipe(&self, id: &str) -> Option<&RecipeEntry> {
        self.recipes().iter().find(|entry| entry.id == id)
    }

    /// Notes to print whenever the environment is used: folders that cannot be read.
    pub fn notes(&self) -> &[String] {
        &self.0.notes
    }
}

impl Installed {
    /// What follows from these entries and folders.
    fn new(linked: Entries, added: Entries, folders: Vec<SpecFolders>) -> Result<Self, RegistryError> {
        let entries = linked.with(&added)?;
        let components = Components::of(&entries)?;
        let kinds = components.kinds()?;
        let mut read = Read {
            texts: registered_texts(&linked, &added),
            tables: entries.all().iter().map(BuiltInTable::as_file).collect(),
            recipes: recipe_file::built_in(&entries),
            notes: Vec::new(),
        };
        for SpecFolders { folders, allow_shadow } in &folders {
            folders.iter().try_for_each(|folder| read.add(folder, *allow_shadow))?;
        }
        let Read { texts, tables, recipes, notes } = read;
        let (sources, architectures) = (Arc::new(Sources { texts, kinds }), OnceLock::new());
        Ok(Self {
            linked,
            added,
            folders,
            entries,
            sources,
            architectures,
            components,
            tables,
            recipes,
            notes,
        })
    }

    fn architectures(&self) -> &Architectures {
        self.architectures.get_or_init(|| Architectures::new(&self.sources))
    }
}

/// What was read of entries and folders so far.
struct Read {
    texts: Vec<Text>,
    tables: Vec<TableFile>,
    recipes: Vec<RecipeEntry>,
    notes: Vec<String>,
}

impl Read {
    /// Adds the files of a folder; of one that was not asked for and cannot be read, a note.
    fn add(&mut self, folder: &SpecFolder, allow_shadow: bool) -> Result<(), RegistryError> {
        let files = folder.files().and_then(|specs| Ok((specs, folder.table_files()?)));
        let (specs, tables) = match files {
            Ok(files) => files,
            Err(error) if folder.is_asked_for() => return Err(error),
            Err(error) => {
                self.notes.push(format!("{error}; its files are not used"));
                return Ok(());
            }
        };
        for path in specs {
            let may_shadow = allow_shadow || folder.kind == FolderKind::File;
            place(&mut self.texts, read(&path, folder.kind), may_shadow);
        }
        recipe_file::add_folder(folder, &mut self.recipes, &mut self.notes)?;
        let read = |path: &PathBuf| TableFile::read(path, folder.kind, allow_shadow);
        self.tables.extend(tables.iter().map(read));
        Ok(())
    }
}
