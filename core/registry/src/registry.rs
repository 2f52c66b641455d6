//! [`Registry`]: every architecture that can be run now, by the name it has in files.

use crate::architecture::{Architecture, GGUFArchitecture};
use crate::component::Components;
use crate::error::RegistryError;
use crate::folder::{FolderKind, SpecFolder};
use crate::recipe_file::{self, RecipeEntry};
use crate::table_file::TableFile;
use crate::text_file::read_text;
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, Heading, SpecLookup, SpecSource};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Which folders are read and what they may do.
#[derive(Clone, Debug, Default)]
pub struct RegistryOptions {
    /// Spec folders, most important first: of two files with the same name the one in the earlier folder is used.
    pub folders: Vec<SpecFolder>,
    /// Whether a file may replace a built-in spec of the same name (never one of a project folder; always one that is
    /// named itself).
    pub allow_shadow: bool,
}

/// Where a spec comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Registered by this crate.
    BuiltIn(&'static str),
    /// A file in a spec folder.
    File {
        /// The file.
        path: PathBuf,
        /// Why its folder is read.
        folder: FolderKind,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(by) => write!(f, "built-in ({by})"),
            Self::File { path, folder } => write!(f, "{} ({})", path.display(), folder.name()),
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

/// All texts, and the kinds they are parsed with.
#[derive(Debug)]
struct Sources {
    texts: Vec<Text>,
    kinds: Kinds,
}

/// A spec's text before it is parsed: `extends` looks through all of them.
#[derive(Debug)]
struct Text {
    id: String,
    source: SpecSource,
    origin: Origin,
    shadows: Option<Origin>,
    passed_over: Vec<Origin>,
    refused: Option<RegistryError>,
}

/// What `extends` sees from one file: itself excluded, so that a shadowing spec may extend what it shadows.
struct Others<'a> {
    texts: &'a [Text],
    own: usize,
}

impl SpecLookup for Others<'_> {
    fn find(&self, id: &str) -> Option<SpecSource> {
        let usable =
            |(index, text): &(usize, &Text)| *index != self.own && text.id == id && text.refused.is_none();
        let built_in_only = matches!(self.texts[self.own].origin, Origin::BuiltIn(_));
        let mut found: Vec<&Text> =
            self.texts.iter().enumerate().filter(usable).map(|(_, text)| text).collect();
        found.retain(|text| !built_in_only || matches!(text.origin, Origin::BuiltIn(_)));
        found.last().map(|text| text.source.clone())
    }

    /// A built-in spec that a file of its id replaces.
    fn find_replaced(&self, id: &str, replacing: &SpecSource) -> Option<SpecSource> {
        let replaces = |text: &&Text| text.source == *replacing && text.shadows.is_some();
        self.texts.iter().find(replaces)?;
        let built_in = |text: &&Text| text.id == id && matches!(text.origin, Origin::BuiltIn(_));
        self.texts.iter().find(built_in).map(|text| text.source.clone())
    }

    fn ids(&self) -> Vec<String> {
        self.texts.iter().map(|text| text.id.clone()).collect()
    }
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
        let components = Components::linked()?;
        let kinds = components.kinds()?;
        let mut texts = built_in_texts()?;
        let mut tables = Vec::new();
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
                    Origin::BuiltIn(second) => RegistryError::Duplicate {
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
            let known: Vec<String> = self.entries.iter().flat_map(Entry::classes).collect();
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

fn built_in_texts() -> Result<Vec<Text>, RegistryError> {
    let mut architectures: Vec<&Architecture> = inventory::iter::<Architecture>.into_iter().collect();
    if architectures.is_empty() {
        return Err(RegistryError::Empty);
    }
    architectures.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = architectures.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(RegistryError::Duplicate {
            name: pair[0].name.to_string(),
            first: pair[0].registered_by.to_owned(),
            second: pair[1].registered_by.to_owned(),
        });
    }
    let text = |architecture: &&Architecture| Text {
        id: architecture.name.to_string(),
        source: SpecSource {
            name: format!("specs/{}.toml", architecture.name),
            text: architecture.spec.to_owned(),
        },
        origin: Origin::BuiltIn(architecture.registered_by),
        shadows: None,
        passed_over: Vec::new(),
        refused: None,
    };
    Ok(architectures.iter().map(text).collect())
}

fn read(path: &Path, folder: FolderKind) -> Text {
    let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let (text, refused) = match read_text(path) {
        Ok(text) => (text, None),
        Err(none) => {
            let faults = none.fault(path);
            (String::new(), Some(RegistryError::Faulty { id: id.clone(), faults }))
        }
    };
    Text {
        id,
        source: SpecSource { name: path.display().to_string(), text },
        origin: Origin::File { path: path.to_owned(), folder },
        shadows: None,
        passed_over: Vec::new(),
        refused,
    }
}

/// Adds a file to those of more important folders. The last text of an id is the one that is used.
fn place(texts: &mut Vec<Text>, mut file: Text, allow_shadow: bool) {
    let project = matches!(file.origin, Origin::File { folder: FolderKind::Project, .. });
    match texts.iter_mut().rfind(|text| text.id == file.id) {
        None => texts.push(file),
        Some(used) if allow_shadow && !project && matches!(used.origin, Origin::BuiltIn(_)) => {
            file.shadows = Some(used.origin.clone());
            texts.push(file);
        }
        Some(used) => used.passed_over.push(file.origin),
    }
}

impl Sources {
    fn parse(&self, own: usize) -> Result<Arc<ArchSpec>, RegistryError> {
        let Sources { texts, kinds } = self;
        let text = &texts[own];
        if let Some(refused) = &text.refused {
            return Err(refused.clone());
        }
        ArchSpec::parse(&text.source, &Others { texts, own }, kinds)
            .map_err(|faults| RegistryError::Faulty { id: text.id.clone(), faults: faults.to_string() })
            .and_then(|spec| named_as_file(spec, &text.id, &text.source.name))
            .map(Arc::new)
    }
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

/// `specs/<id>.toml`: a file whose id differs from its name could not be found by `extends`.
fn named_as_file(spec: ArchSpec, id: &str, file: &str) -> Result<ArchSpec, RegistryError> {
    if spec.id() == id {
        return Ok(spec);
    }
    let faults = format!(
        "{file}: architecture.id is `{}`; rename the file to {0}.toml, or the id to `{id}`",
        spec.id()
    );
    Err(RegistryError::Faulty { id: id.to_owned(), faults })
}
