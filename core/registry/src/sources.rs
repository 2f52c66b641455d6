//! [`Sources`]: the texts of all specs.

use crate::architecture::Architecture;
use crate::error::RegistryError;
use crate::folder_kind::FolderKind;
use crate::origin::Origin;
use crate::text_file::read_text;
use menagerie_entries::Entries;
use menagerie_files::path_text;
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, SpecLookup, SpecSource};
use std::path::Path;
use std::sync::Arc;

/// All texts, and the kinds for parsing them.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) texts: Vec<SpecText>,
    pub(crate) kinds: Kinds,
}

/// The text of a spec that is not parsed yet; `extends` searches all of them.
#[derive(Debug)]
pub(crate) struct SpecText {
    pub(crate) id: String,
    pub(crate) source: SpecSource,
    pub(crate) origin: Origin,
    pub(crate) shadows: Option<Origin>,
    pub(crate) ignored: Vec<Origin>,
    refused: Option<RegistryError>,
}

/// All texts except one: a spec that shadows another one may extend it.
struct OtherSpecs<'a> {
    texts: &'a [SpecText],
    own: usize,
}

impl SpecLookup for OtherSpecs<'_> {
    fn find(&self, id: &str) -> Option<SpecSource> {
        let usable = |(index, text): &(usize, &SpecText)| {
            *index != self.own && text.id == id && text.refused.is_none()
        };
        let built_in_only = matches!(self.texts[self.own].origin, Origin::BuiltIn(_));
        let mut found: Vec<&SpecText> =
            self.texts.iter().enumerate().filter(usable).map(|(_, text)| text).collect();
        found.retain(|text| !built_in_only || matches!(text.origin, Origin::BuiltIn(_)));
        found.last().map(|text| text.source.clone())
    }

    /// The built-in spec, or the spec of a plugin, that a file with the same id replaces.
    fn find_replaced(&self, id: &str, replacing: &SpecSource) -> Option<SpecSource> {
        let replaces = |text: &&SpecText| text.source == *replacing && text.shadows.is_some();
        self.texts.iter().find(replaces)?;
        let built_in = |text: &&SpecText| text.id == id && !matches!(text.origin, Origin::File { .. });
        self.texts.iter().find(built_in).map(|text| text.source.clone())
    }

    fn ids(&self) -> Vec<String> {
        self.texts.iter().map(|text| text.id.clone()).collect()
    }
}

/// The texts of the linked architectures, by name, then of the added ones, in order.
pub(crate) fn registered_texts(linked: &Entries, added: &Entries) -> Vec<SpecText> {
    let text = |architecture: &Architecture, origin: Origin, folder: &str| SpecText {
        id: architecture.name.to_string(),
        source: SpecSource {
            name: format!("{folder}/{}.toml", architecture.name),
            text: architecture.spec.to_owned(),
        },
        origin,
        shadows: None,
        ignored: Vec::new(),
        refused: None,
    };
    let linked =
        linked.all::<Architecture>().iter().map(|one| text(one, Origin::BuiltIn(one.registered_by), "specs"));
    let added = added
        .all::<Architecture>()
        .iter()
        .map(|one| text(one, Origin::Plugin(one.registered_by), one.registered_by));
    linked.chain(added).collect()
}

/// The text of a file.
pub(crate) fn read(path: &Path, folder: FolderKind) -> SpecText {
    let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let (text, refused) = match read_text(path) {
        Ok(text) => (text, None),
        Err(none) => {
            let faults = none.fault(path);
            (String::new(), Some(RegistryError::Faulty { id: id.clone(), faults }))
        }
    };
    SpecText {
        id,
        source: SpecSource { name: path_text(path), text },
        origin: Origin::File { path: path.to_owned(), folder },
        shadows: None,
        ignored: Vec::new(),
        refused,
    }
}

/// Adds a file after those of more important folders. The last text with an id is used.
pub(crate) fn place(texts: &mut Vec<SpecText>, mut file: SpecText, allow_shadow: bool) {
    let project = matches!(file.origin, Origin::File { folder: FolderKind::Project, .. });
    match texts.iter_mut().rfind(|text| text.id == file.id) {
        None => texts.push(file),
        Some(used) if allow_shadow && !project && !matches!(used.origin, Origin::File { .. }) => {
            file.shadows = Some(used.origin.clone());
            texts.push(file);
        }
        Some(used) => used.ignored.push(file.origin),
    }
}

impl Sources {
    /// Parses a text.
    ///
    /// # Errors
    /// The faults of the spec.
    pub(crate) fn parse(&self, own: usize) -> Result<Arc<ArchSpec>, RegistryError> {
        let Sources { texts, kinds } = self;
        let text = &texts[own];
        if let Some(refused) = &text.refused {
            return Err(refused.clone());
        }
        ArchSpec::parse(&text.source, &OtherSpecs { texts, own }, kinds)
            .map_err(|faults| RegistryError::Faulty { id: text.id.clone(), faults: faults.to_string() })
            .and_then(|spec| named_as_file(spec, &text.id, &text.source.name))
            .map(Arc::new)
    }
}

/// Checks that the id of a spec is the name of its file, because `extends` searches by file name.
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
