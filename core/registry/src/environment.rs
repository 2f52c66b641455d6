//! [`Environment`]: everything that is installed, as a value.

use crate::architecture::{Architecture, GGUFArchitecture};
use crate::architectures::{ArchitectureEntry, Architectures};
use crate::component::Components;
use crate::error::RegistryError;
use crate::folder::SpecFolder;
use crate::folder_kind::FolderKind;
use crate::recipe_file::{self, RecipeEntry};
use crate::sources::{Sources, SpecText, place, read, registered_texts};
use crate::table_file::{BuiltInTable, TableFile};
use menagerie_entries::{Entries, Entry};
use menagerie_spec::ArchSpec;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Spec folders that extend an environment.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SpecFolders {
    /// The folders, most important first: of two files with the same name the one in the earlier folder is used.
    pub folders: Vec<SpecFolder>,
    /// Whether a file may replace a built-in spec of the same name. A file of a project folder never may, and a file that
    /// was named with `--spec` always may.
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
/// [`Environment::linked`] has the entries that are linked into the program; spec folders and plugins extend it, and every
/// function that opens a model takes it. Extending returns a new environment and does not change the first one; cloning
/// copies a pointer. Two entries of one family with the same name are refused, and the error names both origins.
#[derive(Clone, Debug)]
pub struct Environment(Arc<EnvironmentContent>);

/// The content of an environment.
#[derive(Debug)]
struct EnvironmentContent {
    /// Entries of the crates of this program.
    linked: Entries,
    /// Entries that were added later, in order.
    added: Entries,
    folders: Vec<SpecFolders>,
    /// The entries of both.
    entries: Entries,
    sources: Arc<Sources>,
    /// Built from the sources at the first look-up of an architecture, because that reads the heading of every spec.
    architectures: OnceLock<Architectures>,
    components: Components,
    tables: Vec<TableFile>,
    recipes: Vec<RecipeEntry>,
    notes: Vec<String>,
}

impl Environment {
    /// The environment with the entries that the crates of this program register.
    ///
    /// # Errors
    /// A name that two crates register in one family; a kind whose table is inconsistent.
    pub fn linked() -> Result<Self, RegistryError> {
        let content = EnvironmentContent::new(Entries::linked()?, Entries::default(), Vec::new())?;
        Ok(Self(Arc::new(content)))
    }

    /// The environment with the specs, tables and recipes of these folders, after those of the folders that it already has.
    ///
    /// If several files have the same name, the one in the earliest folder is used. A built-in spec is used instead of a
    /// file unless [`SpecFolders::allow_shadow`]; [`ArchitectureEntry::ignored`] lists the files that are not used. Faults of
    /// a file do not affect the others: [`ArchitectureEntry::spec`] returns them. [`Self::notes`] lists data and project
    /// folders that cannot be read.
    ///
    /// # Errors
    /// A requested folder cannot be read.
    pub fn with_spec_folders(&self, folders: SpecFolders) -> Result<Self, RegistryError> {
        let EnvironmentContent { linked, added, folders: earlier, .. } = &*self.0;
        let folders = earlier.iter().cloned().chain([folders]).collect();
        Ok(Self(Arc::new(EnvironmentContent::new(linked.clone(), added.clone(), folders)?)))
    }

    /// The environment with additional entries.
    ///
    /// # Errors
    /// A name that already exists, a kind whose table is inconsistent, a spec with faults; then no entry is added.
    pub fn with(&self, entries: Entries) -> Result<Self, RegistryError> {
        let ids: Vec<String> = entries.all::<Architecture>().iter().map(|one| one.name.to_string()).collect();
        let EnvironmentContent { linked, added, folders, .. } = &*self.0;
        let added = added.with(&entries)?;
        // Checked without folders, because their files may replace the new specs.
        let content = EnvironmentContent::new(linked.clone(), added.clone(), Vec::new())?;
        if !ids.is_empty() {
            for entry in content.architectures().all().iter().filter(|entry| ids.contains(&entry.id)) {
                entry.spec().clone()?;
            }
        }
        let content = match folders.is_empty() {
            true => content,
            false => EnvironmentContent::new(linked.clone(), added, folders.clone())?,
        };
        Ok(Self(Arc::new(content)))
    }

    /// The entries of every family.
    pub fn entries(&self) -> &Entries {
        &self.0.entries
    }

    /// The entries of a type; see [`Entries::all`].
    pub fn all<T: Entry>(&self) -> &[T] {
        self.0.entries.all()
    }

    /// The factories of kinds.
    pub fn components(&self) -> &Components {
        &self.0.components
    }

    /// Every architecture, also faulty ones: built-in ones first, then by folder.
    pub fn architectures(&self) -> &[ArchitectureEntry] {
        self.0.architectures().all()
    }

    /// The architecture of this id, faulty or not.
    pub fn architecture(&self, id: &str) -> Option<&ArchitectureEntry> {
        self.architectures().iter().find(|entry| entry.id == id)
    }

    /// The names of architectures in files, sorted.
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

    /// The architectures and specs of a class of config.json. If several have the class, the keys and tensors of a model
    /// decide between them; a spec that was named with `--spec` is the only one.
    ///
    /// # Errors
    /// An unknown class (with the nearest class), or a faulty spec.
    pub fn of_class(&self, class: &str) -> Result<Vec<(&ArchitectureEntry, Arc<ArchSpec>)>, RegistryError> {
        self.0.architectures().of_class(class)
    }

    /// The tables of vocabularies and chats: those of added entries, then those of spec folders, most important first.
    pub fn tables(&self) -> &[TableFile] {
        &self.0.tables
    }

    /// Every recipe, also faulty ones: built-in ones first, then by folder.
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

impl EnvironmentContent {
    /// The content for these entries and folders.
    fn new(linked: Entries, added: Entries, folders: Vec<SpecFolders>) -> Result<Self, RegistryError> {
        let entries = linked.with(&added)?;
        let components = Components::of(&entries)?;
        let kinds = components.kinds()?;
        let mut read = FolderReader {
            texts: registered_texts(&linked, &added),
            tables: entries.all().iter().map(BuiltInTable::as_file).collect(),
            recipes: recipe_file::built_in(&entries),
            notes: Vec::new(),
        };
        for SpecFolders { folders, allow_shadow } in &folders {
            folders.iter().try_for_each(|folder| read.add(folder, *allow_shadow))?;
        }
        let FolderReader { texts, tables, recipes, notes } = read;
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

/// Collects the content of entries and folders.
struct FolderReader {
    texts: Vec<SpecText>,
    tables: Vec<TableFile>,
    recipes: Vec<RecipeEntry>,
    notes: Vec<String>,
}

impl FolderReader {
    /// Adds the files of a folder; adds a note if the folder was not requested and cannot be read.
    fn add(&mut self, folder: &SpecFolder, allow_shadow: bool) -> Result<(), RegistryError> {
        let files = folder.files().and_then(|specs| Ok((specs, folder.table_files()?)));
        let (specs, tables) = match files {
            Ok(files) => files,
            Err(error) if folder.is_requested() => return Err(error),
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
