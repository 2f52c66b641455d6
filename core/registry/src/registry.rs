//! [`Registry`]: every architecture that can be run now, by the name it has in files.

use crate::architecture::GGUFArchitecture;
use crate::component::Components;
use crate::error::RegistryError;
use crate::extension::{self, AddedTable, Extension};
use crate::folder::{FolderKind, SpecFolder};
use crate::recipe_file::{self, RecipeEntry};
use crate::sources::{Sources, built_in_texts, place, read};
use crate::table_file::TableFile;
use gguf_file::path_text;
use menagerie_spec::{ArchSpec, Heading, wrapping_classes};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Which folders are read and what they may do.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RegistryOptions {
    /// Spec folders, most important first: of two files with the same name the one in the earlier folder is used.
    pub folders: Vec<SpecFolder>,
    /// Whether a file may replace a built-in spec of the same name (never one of a project folder; always one that is
    /// named itself).
    pub allow_shadow: bool,
}

impl RegistryOptions {
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

/// Where a spec comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Registered by this crate.
    BuiltIn(&'static str),
    /// Added by this plugin.
    Plugin(&'static str),
    /// A file in a spec folder.
    File {
        /// The file.
        path: PathBuf,
        /// Why its folder is read.
        folder: FolderKind,
    },
}

impl Origin {
    /// The spec that comes from there, in a sentence.
    pub fn noun(&self) -> String {
        match self {
            Self::BuiltIn(_) => "the built-in one".to_owned(),
            Self::Plugin(_) | Self::File { .. } => self.to_string(),
        }
    }

    /// Where it comes from, for programs: with the crate of what is built in.
    pub fn detail(&self) -> String {
        match self {
            Self::BuiltIn(by) => format!("built-in ({by})"),
            Self::Plugin(_) | Self::File { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(_) => f.write_str("built in"),
            Self::Plugin(by) => f.write_str(by),
            Self::File { path, folder } => write!(f, "{} ({})", path_text(path), folder.name()),
        }
    }
}

/// One architecture.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Id of the spec; for a file that cannot be parsed, the name of the file.
    pub id: String,
    /// Where the spec comes from.
    pub origin: Origin,
    /// What it replaces, if it was allowed to.
    pub shadows: Option<Origin>,
    /// Files of the same name that are not used.
    pub passed_over: Vec<Origin>,
    spec: OnceLock<Result<Arc<ArchSpec>, RegistryError>>,
    sources: Arc<Sources>,
    /// Which of the sources it is.
    own: usize,
}

impl Entry {
    /// The spec, or why there is none. A built-in one is parsed when it is first asked for, a file at once.
    ///
    /// # Errors
    /// The faults of the spec.
    pub fn spec(&self) -> &Result<Arc<ArchSpec>, RegistryError> {
        self.spec.get_or_init(|| self.sources.parse(self.own))
    }

    /// The spec's text, as written.
    pub fn text(&self) -> &str {
        &self.sources.texts[self.own].source.text
    }

    /// What the text says of itself, without its being parsed; `None` where it is written in another way than usual.
    pub fn heading(&self) -> Option<Heading> {
        Heading::of(self.text())
    }

    /// The names it answers to.
    fn names(&self) -> Vec<String> {
        if let (Origin::BuiltIn(_), Some(heading)) = (&self.origin, self.heading()) {
            return heading.gguf;
        }
        match self.spec() {
            Ok(spec) => spec.gguf_names().to_vec(),
            Err(_) => vec![self.id.clone()],
        }
    }

    /// The classes of config.json it answers to; none of one with faults.
    pub fn classes(&self) -> Vec<String> {
        if let (Origin::BuiltIn(_), Some(Heading { hf: Some(hf), .. })) = (&self.origin, self.heading()) {
            return hf;
        }
        let classes = self.spec().as_ref().map(|spec| spec.hf_classes()).unwrap_or_default();
        classes.iter().map(|class| class.name.clone()).collect()
    }

    /// What must be said whenever the architecture is used: the files of its name that are not, and why.
    pub fn notes(&self) -> Vec<String> {
        let why = |passed: &Origin| match (&self.origin, passed) {
            (Origin::BuiltIn(_), Origin::File { folder: FolderKind::Project, .. }) => format!(
                "architecture {} is built in, and a project folder may only add: rename the file and its id, or take \
                 it away",
                self.id
            ),
            (Origin::BuiltIn(_), _) => format!(
                "architecture {} is built in; pass --allow-shadow to use the file instead, or rename it and its id",
                self.id
            ),
            (used, _) => format!("{used} comes first"),
        };
        self.passed_over.iter().map(|passed| format!("{passed} is not used: {}", why(passed))).collect()
    }
}

/// Every architecture that can be run now, and the components they are made of.
#[derive(Debug)]
pub struct Registry {
    entries: Vec<Entry>,
    names: BTreeMap<String, usize>,
    components: Components,
    tables: Vec<TableFile>,
    recipes: Vec<RecipeEntry>,
    notes: Vec<String>,
}

impl Registry {
    /// The built-in architectures alone.
    ///
    /// # Errors
    /// Nothing linked in, or a name registered twice.
    pub fn built_in() -> Result<Self, RegistryError> {
        Self::load(&RegistryOptions::default())
    }

    /// The built-in architectures and those of the spec folders.
    ///
    /// Of one name, the file in the earliest folder is used, and a built-in spec before any file unless
    /// `allow_shadow`; what is not used is in [`Entry::passed_over`]. A file with faults does not stop the others: the
    /// fault is kept in its entry and returned when it is asked for. A data or project folder that cannot be read is in
    /// [`Self::notes`].
    ///
    /// # Errors
    /// Nothing linked in, a name registered twice by crates, or a folder that was asked for and cannot be read.
    pub fn load(options: &RegistryOptions) -> Result<Self, RegistryError> {
        Self::load_with(options, &extension::all())
    }

    /// The same with these extensions in place of those that were added.
    pub(crate) fn load_with(options: &RegistryOptions, added: &[Extension]) -> Result<Self, RegistryError> {
        let components = Components::with(added)?;
        let kinds = components.kinds()?;
        let mut texts = built_in_texts(added)?;
        let mut tables: Vec<TableFile> =
            added.iter().flat_map(|one| &one.tables).map(AddedTable::as_file).collect();
        let mut notes = Vec::new();
        let mut recipes = recipe_file::built_in()?;
        for folder in &options.folders {
            let files = folder.files().and_then(|specs| Ok((specs, folder.table_files()?)));
            let (specs, table_files) = match files {
                Ok(files) => files,
                Err(error) if folder.is_asked_for() => return Err(error),
                Err(error) => {
                    notes.push(format!("{error}; what it holds is not used"));
                    continue;
                }
            };
            for path in specs {
                // Who names the file itself wants it.
                let may_shadow = options.allow_shadow || folder.kind == FolderKind::File;
                place(&mut texts, read(&path, folder.kind), may_shadow);
            }
            recipe_file::add_folder(folder, &mut recipes, &mut notes)?;
            let read = |path: &PathBuf| TableFile::read(path, folder.kind, options.allow_shadow);
            tables.extend(table_files.iter().map(read));
        }
        let sources = Arc::new(Sources { texts, kinds });
        let entries = (0..sources.texts.len()).map(|index| entry(&sources, index)).collect();
        Ok(Self { components, tables, recipes, notes, ..Self::index(entries)? })
    }

    /// Later entries shadow earlier ones; those that were replaced are dropped.
    fn index(entries: Vec<Entry>) -> Result<Self, RegistryError> {
        let mut registry = Self {
            entries: Vec::new(),
            names: BTreeMap::new(),
            components: Components::default(),
            tables: Vec::new(),
            recipes: Vec::new(),
            notes: Vec::new(),
        };
        for mut entry in entries {
            let names = entry.names();
            let taken = names.iter().find_map(|name| registry.names.get(name).map(|&index| (name, index)));
            if let Some((name, index)) = taken
                && registry.entries[index].id != entry.id
                && entry.spec().is_ok()
            {
                let by = registry.entries[index].origin.to_string();
                let taken = match &entry.origin {
                    Origin::File { path, .. } => {
                        RegistryError::NameTaken { path: path.clone(), name: name.clone(), by }
                    }
                    Origin::BuiltIn(second) | Origin::Plugin(second) => RegistryError::Duplicate {
                        name: name.clone(),
                        first: by,
                        second: (*second).to_owned(),
                    },
                };
                entry.spec = OnceLock::from(Err(taken));
                registry.entries.push(entry);
                continue;
            }
            for name in names {
                registry.names.insert(name, registry.entries.len());
            }
            registry.entries.push(entry);
        }
        registry.drop_replaced();
        Ok(registry)
    }

    fn drop_replaced(&mut self) {
        let kept: Vec<bool> = (0..self.entries.len())
            .map(|index| {
                let id = &self.entries[index].id;
                !self.entries[index + 1..].iter().any(|later| later.id == *id)
            })
            .collect();
        let mut renumbered = Vec::new();
        let mut next = 0;
        for &keep in &kept {
            renumbered.push(next);
            next += usize::from(keep);
        }
        self.names.retain(|_, index| kept[*index]);
        self.names.values_mut().for_each(|index| *index = renumbered[*index]);
        let mut keep = kept.iter();
        self.entries.retain(|_| *keep.next().unwrap_or(&true));
    }

    /// The factories of kinds.
    pub fn components(&self) -> &Components {
        &self.components
    }

    /// Every entry, built-in ones first, then by folder; faulty ones included.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this id, faulty or not.
    pub fn entry(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }

    /// The entry and spec of a name in a file.
    ///
    /// # Errors
    /// Unknown (with the nearest names) or faulty.
    pub fn resolve(&self, name: &GGUFArchitecture) -> Result<(&Entry, Arc<ArchSpec>), RegistryError> {
        let Some(&index) = self.names.get(name.as_str()) else {
            return Err(RegistryError::Unknown {
                name: name.to_string(),
                nearest: nearest(name.as_str(), self.names.keys()),
            });
        };
        let entry = &self.entries[index];
        entry.spec().clone().map(|spec| (entry, spec))
    }

    /// The entries and specs of a class of config.json. Of several the keys and tensors of a model say which it is of; one
    /// whose file was named itself is meant, whatever the others are.
    ///
    /// # Errors
    /// Unknown (with the nearest classes) or faulty.
    pub fn of_class(&self, class: &str) -> Result<Vec<(&Entry, Arc<ArchSpec>)>, RegistryError> {
        // Classes are not inherited, so that the text has the name.
        let has =
            |entry: &&Entry| entry.text().contains(class) && entry.classes().iter().any(|name| name == class);
        let mut found: Vec<&Entry> = self.entries.iter().filter(has).collect();
        let named = |entry: &&Entry| matches!(entry.origin, Origin::File { folder: FolderKind::File, .. });
        if let Some(named) = found.iter().copied().find(named) {
            found = vec![named];
        }
        if found.is_empty() {
            let own = self.entries.iter().flat_map(Entry::classes);
            let known: Vec<String> = own.chain(wrapping_classes().map(str::to_owned)).collect();
            let shown: String = class.chars().take(64).collect();
            let name = shown.escape_debug().to_string();
            return Err(RegistryError::UnknownClass { nearest: nearest(&name, known.iter()), name });
        }
        found.into_iter().map(|entry| entry.spec().clone().map(|spec| (entry, spec))).collect()
    }

    /// Files of tokenizer tables in the spec folders, most important first.
    pub fn tables(&self) -> &[TableFile] {
        &self.tables
    }

    /// Every recipe, built-in ones first, then by folder; faulty ones included.
    pub fn recipes(&self) -> &[RecipeEntry] {
        &self.recipes
    }

    /// The recipe of this name, faulty or not.
    pub fn recipe(&self, id: &str) -> Option<&RecipeEntry> {
        self.recipes.iter().find(|entry| entry.id == id)
    }

    /// What must be said whenever the registry is used: folders that cannot be read.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Names in files that can be resolved, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }
}

/// The names that look most like `name`, best first, at most three.
fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut scored: Vec<(f64, &String)> = known
        .map(|other| (strsim::jaro_winkler(&name.to_lowercase(), &other.to_lowercase()), other))
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    scored.into_iter().filter(|(score, _)| *score > 0.7).take(3).map(|(_, other)| other.clone()).collect()
}

fn entry(sources: &Arc<Sources>, own: usize) -> Entry {
    let text = &sources.texts[own];
    Entry {
        id: text.id.clone(),
        origin: text.origin.clone(),
        shadows: text.shadows.clone(),
        passed_over: text.passed_over.clone(),
        spec: OnceLock::new(),
        sources: Arc::clone(sources),
        own,
    }
}
