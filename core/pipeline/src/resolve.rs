//! [`ResolvedFile`]: a file, the spec of its architecture, and what the spec means for the file; no tensor is touched.

use crate::error::LoadError;
use crate::notice::Notice;
use gguf_file::{ArrayView, Value};
use menagerie_assembly::GgufSource;
use menagerie_loaders::{CanonicalKeys, GgufLoader};
use menagerie_registry::{Entry, GGUFArchitecture, Origin, Registry};
use menagerie_spec::{ArchSpec, KeySource, KeyValue, ModelConfig, Resolution, ResolveInput, SourceFormat};
use std::sync::Arc;

/// A file with the spec of its architecture.
#[derive(Clone, Debug)]
pub struct ResolvedFile {
    /// The file.
    pub loader: GgufLoader,
    /// Where the spec is from.
    pub origin: Origin,
    /// What the spec replaces.
    pub shadows: Option<Origin>,
    /// The spec.
    pub spec: Arc<ArchSpec>,
    /// What it means for this file.
    pub resolution: Resolution,
}

impl ResolvedFile {
    /// Looks up the architecture of `loader` and resolves its spec against the file.
    ///
    /// # Errors
    /// An architecture that is not known (nearest ones named) or faulty; all faults of the file under its spec.
    pub fn new(loader: GgufLoader, registry: &Registry, accept_unread: &[String]) -> Result<Self, LoadError> {
        let file = file_name(&loader);
        let architecture = loader.architecture()?.to_owned();
        let unusable = |source| LoadError::Architecture { file: file.clone(), source };
        let name = GGUFArchitecture::new(&architecture).map_err(unusable)?;
        let (entry, spec) = registry.resolve(&name).map_err(unusable)?;
        let Entry { origin, shadows, .. } = entry.clone();
        let resolution = resolve(&loader, &spec, &architecture, accept_unread)?;
        Ok(Self { loader, origin, shadows, spec, resolution })
    }

    /// The resolved model.
    pub fn config(&self) -> &ModelConfig {
        &self.resolution.config
    }

    /// Path of the file, for messages.
    pub fn file_name(&self) -> String {
        file_name(&self.loader)
    }

    /// What must be said whenever the file is loaded.
    pub fn notices(&self) -> Vec<Notice> {
        let id = self.spec.id().to_owned();
        let dropped_in = match (&self.shadows, &self.origin) {
            (Some(replaced), used) => {
                Some(Notice::Shadowed { id, used: used.to_string(), replaced: replaced.to_string() })
            }
            (None, origin @ Origin::File { .. }) => {
                Some(Notice::DroppedIn { id, origin: origin.to_string() })
            }
            (None, Origin::BuiltIn(_)) => None,
        };
        let warnings = self.resolution.warnings.iter().cloned().map(Notice::Note);
        dropped_in.into_iter().chain(warnings).collect()
    }
}

fn file_name(loader: &GgufLoader) -> String {
    loader.file().paths().first().map_or_else(|| "the file".to_owned(), |path| path.display().to_string())
}

fn resolve(
    loader: &GgufLoader,
    spec: &ArchSpec,
    architecture: &str,
    accept_unread: &[String],
) -> Result<Resolution, LoadError> {
    let keys = GgufKeys(loader.canonical_keys()?);
    let roles = GgufSource::new(Arc::clone(loader.file()), spec);
    let mut input = ResolveInput::new(SourceFormat::Gguf, file_name(loader), architecture, &keys, &roles);
    input.accept_unread = accept_unread.to_vec();
    spec.resolve_report(&input).map_err(LoadError::Spec)
}

/// The metadata of a GGUF file as specs read it.
#[derive(Clone, Debug)]
pub struct GgufKeys(pub CanonicalKeys);

impl KeySource for GgufKeys {
    fn get(&self, canonical_key: &str) -> Option<KeyValue> {
        self.0.get(canonical_key).map(key_value)
    }

    fn keys(&self) -> Vec<String> {
        self.0.own_keys().map(str::to_owned).collect()
    }

    fn foreign_keys(&self) -> Vec<String> {
        let metadata = self.0.file().metadata();
        let own: std::collections::HashSet<String> =
            self.0.own_keys().map(|key| self.0.file_key(key)).collect();
        metadata.keys().filter(|key| !own.contains(*key)).map(str::to_owned).collect()
    }
}

fn key_value(value: Value) -> KeyValue {
    match value {
        Value::Bool(flag) => KeyValue::Bool(flag),
        Value::String(text) => KeyValue::Text(text.to_owned()),
        Value::Array(array) => KeyValue::List(list(array)),
        Value::F32(number) => KeyValue::Number(f64::from(number)),
        Value::F64(number) => KeyValue::Number(number),
        // An integer past i64 is kept as a number.
        integer => integer
            .as_i64()
            .map_or_else(|| KeyValue::Number(integer.as_f64().unwrap_or(f64::NAN)), KeyValue::Integer),
    }
}

fn list(array: ArrayView) -> Vec<KeyValue> {
    array.values().map(key_value).collect()
}
