//! [`Sources`]: the texts of all specs, and how one of them is parsed.

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

/// All texts, and the kinds they are parsed with.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) texts: Vec<Text>,
    pub(crate) kinds: Kinds,
}

/// A spec's text before it is parsed: `extends` looks through all of them.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) id: String,
    pub(crate) source: SpecSource,
    pub(crate) origin: Origin,
    pub(crate) shadows: Option<Origin>,
    pub(crate) passed_over: Vec<Origin>,
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

    /// A built-in or a plugin's spec that a file of its id replaces.
    fn find_replaced(&self, id: &str, replacing: &SpecSource) -> Option<SpecSource> {
        let replaces = |text: &&Text| text.source == *replacing && text.shadows.is_some();
        self.texts.iter().find(replaces)?;
        let built_in = |text: &&Text| text.id == id && !matches!(text.origin, Origin::File { .. });
        self.texts.iter().find(built_in).map(|text| text.source.clone())
    }

    fn ids(&self) -> Vec<String> {
        self.texts.iter().map(|text| text.id.clone()).collect()
    }
}

/// The texts of the architectures that are linked in, by name, and of those that were added, in their order.
pub(crate) fn registered_texts(linked: &Entries, added: &Entries) -> Vec<Text> {
    let text = |architecture: &Architecture, origin: Origin, folder: &str| Text {
        id: architecture.name.to_string(),
        source: SpecSource {
            name: format!("{folder}/{}.toml", architecture.name),
            text: architecture.spec.to_owned(),
        },
        origin,
        shadows: None,
        passed_over: Vec::new(),
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
pub(crate) fn read(path: &Path, folder: FolderKind) -> Text {
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
        source: SpecSource { name: path_text(path), text },
        origin: Origin::File { path: path.to_owned(), folder },
        shadows: None,
        passed_over: Vec::new(),
        refused,
    }
}

/// Adds a file to those of more important folders. The last text of an id is the one that is used.
pub(crate) fn place(texts: &mut Vec<Text>, mut file: Text, allow_shadow: bool) {
    let project = matches!(file.origin, Origin::File { folder: FolderKind::Project, .. });
    match texts.iter_mut().rfind(|text| text.id == file.id) {
        None => texts.push(file),
        Some(used) if allow_shadow && !project && !matches!(used.origin, Origin::File { .. }) => {
            file.shadows = Some(used.origin.clone());
            texts.push(file);
        }
        Some(used) => used.passed_over.push(file.origin),
    }
}

impl Sources {
    /// The spec of a text.
    ///
    /// # Errors
    /// Its faults.
    pub(crate) fn parse(&self, own: usize) -> Result<Arc<ArchSpec>, RegistryError> {
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
