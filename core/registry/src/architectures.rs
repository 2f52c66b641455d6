//! [`Architectures`]: every architecture that can be run, by the name that it has in files.

use crate::architecture::GGUFArchitecture;
use crate::error::RegistryError;
use crate::folder_kind::FolderKind;
use crate::origin::Origin;
use crate::sources::Sources;
use menagerie_entries::{DuplicateName, nearest};
use menagerie_spec::{ArchSpec, Heading, wrapping_classes};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// One architecture of an environment.
#[derive(Clone, Debug)]
pub struct ArchitectureEntry {
    /// Id of the spec; if the file cannot be parsed, the name of the file.
    pub id: String,
    /// The origin of the spec.
    pub origin: Origin,
    /// The spec that it replaces, if that is allowed.
    pub shadows: Option<Origin>,
    /// Files of the same name, which are not used.
    pub ignored: Vec<Origin>,
    spec: OnceLock<Result<Arc<ArchSpec>, RegistryError>>,
    sources: Arc<Sources>,
    /// Its index in the sources.
    own: usize,
}

impl ArchitectureEntry {
    /// The architecture of a text.
    fn new(sources: &Arc<Sources>, own: usize) -> Self {
        let text = &sources.texts[own];
        Self {
            id: text.id.clone(),
            origin: text.origin.clone(),
            shadows: text.shadows.clone(),
            ignored: text.ignored.clone(),
            spec: OnceLock::new(),
            sources: Arc::clone(sources),
            own,
        }
    }

    /// The spec. A built-in spec is parsed at the first call, the spec of a file when architectures are first looked up.
    ///
    /// # Errors
    /// The faults of the spec.
    pub fn spec(&self) -> &Result<Arc<ArchSpec>, RegistryError> {
        self.spec.get_or_init(|| self.sources.parse(self.own))
    }

    /// The text of the spec.
    pub fn text(&self) -> &str {
        &self.sources.texts[self.own].source.text
    }

    /// The heading of the text, read without parsing the rest; `None` if it does not have the usual form.
    pub fn heading(&self) -> Option<Heading> {
        Heading::of(self.text())
    }

    /// Its names in files.
    fn names(&self) -> Vec<String> {
        if let (Origin::BuiltIn(_), Some(heading)) = (&self.origin, self.heading()) {
            return heading.gguf;
        }
        match self.spec() {
            Ok(spec) => spec.gguf_names.to_vec(),
            Err(_) => vec![self.id.clone()],
        }
    }

    /// Its classes of config.json; none if the spec is faulty.
    pub fn classes(&self) -> Vec<String> {
        if let (Origin::BuiltIn(_), Some(Heading { hf: Some(hf), .. })) = (&self.origin, self.heading()) {
            return hf;
        }
        let classes = self.spec().as_ref().map(|spec| &spec.hf_classes[..]).unwrap_or_default();
        classes.iter().map(|class| class.name.clone()).collect()
    }

    /// Notes to print whenever the architecture is used: which files of its name are not used, and why.
    pub fn notes(&self) -> Vec<String> {
        let why = |ignored: &Origin| match (&self.origin, ignored) {
            (Origin::BuiltIn(_), Origin::File { folder: FolderKind::Project, .. }) => format!(
                "architecture {} is built in, and a project folder may only add architectures: rename the file and its \
                 id, or remove it",
                self.id
            ),
            (Origin::BuiltIn(_), _) => format!(
                "architecture {} is built in; pass --allow-shadow to use the file instead, or rename it and its id",
                self.id
            ),
            (used, _) => format!("{used} comes first"),
        };
        self.ignored.iter().map(|ignored| format!("{ignored} is not used: {}", why(ignored))).collect()
    }
}

/// The architectures of an environment, by id and by their names in files.
#[derive(Debug, Default)]
pub(crate) struct Architectures {
    all: Vec<ArchitectureEntry>,
    /// Index of the architecture that has a name in files.
    names: BTreeMap<String, usize>,
}

impl Architectures {
    /// The architectures of these texts, in which later texts replace earlier ones of the same id.
    pub(crate) fn new(sources: &Arc<Sources>) -> Self {
        let mut architectures = Self::default();
        (0..sources.texts.len()).for_each(|own| architectures.add(ArchitectureEntry::new(sources, own)));
        architectures.drop_replaced();
        architectures
    }

    /// Adds an architecture. If another architecture has one of its names, it is faulty and not used.
    fn add(&mut self, mut entry: ArchitectureEntry) {
        let names = entry.names();
        let taken = names.iter().find_map(|name| self.names.get(name).map(|&index| (name, index)));
        if let Some((name, index)) = taken
            && self.all[index].id != entry.id
            && entry.spec().is_ok()
        {
            let first = self.all[index].origin.to_string();
            let taken = match &entry.origin {
                Origin::File { path, .. } => {
                    RegistryError::NameTaken { path: path.clone(), name: name.clone(), by: first }
                }
                Origin::BuiltIn(second) | Origin::Plugin(second) => RegistryError::Duplicate(DuplicateName {
                    family: "architecture".to_owned(),
                    name: name.clone(),
                    first,
                    second: (*second).to_owned(),
                }),
            };
            entry.spec = OnceLock::from(Err(taken));
            self.all.push(entry);
            return;
        }
        for name in names {
            self.names.insert(name, self.all.len());
        }
        self.all.push(entry);
    }

    /// Removes the architectures that a later one with the same id replaces.
    fn drop_replaced(&mut self) {
        let kept: Vec<bool> = (0..self.all.len())
            .map(|index| {
                let id = &self.all[index].id;
                !self.all[index + 1..].iter().any(|later| later.id == *id)
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
        self.all.retain(|_| *keep.next().unwrap_or(&true));
    }

    /// Every architecture, built-in ones first, then by folder; faulty ones included.
    pub(crate) fn all(&self) -> &[ArchitectureEntry] {
        &self.all
    }

    /// The architecture and spec of a name in a file.
    ///
    /// # Errors
    /// An unknown name (with the nearest name), or a faulty spec; [`RegistryError::Empty`] if there is no architecture.
    pub(crate) fn resolve(
        &self,
        name: &GGUFArchitecture,
    ) -> Result<(&ArchitectureEntry, Arc<ArchSpec>), RegistryError> {
        if self.all.is_empty() {
            return Err(RegistryError::Empty);
        }
        let Some(&index) = self.names.get(name.as_str()) else {
            return Err(RegistryError::Unknown {
                name: name.to_string(),
                nearest: nearest(name.as_str(), self.names()).map(str::to_owned),
            });
        };
        let entry = &self.all[index];
        entry.spec().clone().map(|spec| (entry, spec))
    }

    /// The architectures and specs of a class of config.json. If several have the class, the keys and tensors of a model
    /// decide between them; a spec that was named with `--spec` is the only one.
    ///
    /// # Errors
    /// An unknown class (with the nearest class), or a faulty spec.
    pub(crate) fn of_class(
        &self,
        class: &str,
    ) -> Result<Vec<(&ArchitectureEntry, Arc<ArchSpec>)>, RegistryError> {
        // Classes are not inherited, so the text of the spec contains the name.
        let has = |entry: &&ArchitectureEntry| {
            entry.text().contains(class) && entry.classes().iter().any(|name| name == class)
        };
        let mut found: Vec<&ArchitectureEntry> = self.all.iter().filter(has).collect();
        let named = |entry: &&ArchitectureEntry| {
            matches!(entry.origin, Origin::File { folder: FolderKind::File, .. })
        };
        if let Some(named) = found.iter().copied().find(named) {
            found = vec![named];
        }
        if self.all.is_empty() {
            return Err(RegistryError::Empty);
        }
        if found.is_empty() {
            let own = self.all.iter().flat_map(ArchitectureEntry::classes);
            let known: Vec<String> = own.chain(wrapping_classes().map(str::to_owned)).collect();
            let shown: String = class.chars().take(64).collect();
            let name = shown.escape_debug().to_string();
            let nearest = nearest(&name, known.iter().map(String::as_str)).map(str::to_owned);
            return Err(RegistryError::UnknownClass { nearest, name });
        }
        found.into_iter().map(|entry| entry.spec().clone().map(|spec| (entry, spec))).collect()
    }

    /// The names in files that can be resolved, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }
}
