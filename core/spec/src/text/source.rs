//! The input of a spec: its text, and the keys and roles of a model file.

use std::collections::BTreeMap;

/// The text of a spec and the name it is reported under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecSource {
    /// Path of the file, or `built-in:llama`.
    pub name: String,
    /// The TOML text.
    pub text: String,
}

/// Finds specs by id, for `extends`.
pub trait SpecLookup {
    /// The spec with this id, if there is one.
    fn find(&self, id: &str) -> Option<SpecSource>;

    /// The spec that `replacing`, of the same id, replaces: the base of a spec that extends its own id.
    fn find_replaced(&self, _id: &str, _replacing: &SpecSource) -> Option<SpecSource> {
        None
    }

    /// Ids that can be found, for the nearest-name help; may be empty.
    fn ids(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A lookup that finds nothing: for specs that extend nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookup;

impl SpecLookup for NoLookup {
    fn find(&self, _id: &str) -> Option<SpecSource> {
        None
    }
}

impl SpecLookup for BTreeMap<String, SpecSource> {
    fn find(&self, id: &str) -> Option<SpecSource> {
        self.get(id).cloned()
    }

    fn ids(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }
}

/// Value of a canonical key.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum MetadataValue {
    /// A float; an f32 of a GGUF is widened exactly.
    Number(f64),
    /// Any integer type.
    Integer(i64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<MetadataValue>),
}

impl MetadataValue {
    /// A count, for a list its first element; `None` for other values.
    pub fn first_count(&self) -> Option<usize> {
        match self {
            MetadataValue::Integer(value) => usize::try_from(*value).ok(),
            MetadataValue::List(values) => values.first()?.first_count(),
            _ => None,
        }
    }
}

/// The metadata of a model, by canonical key.
pub trait KeySource {
    /// Value of a canonical key: a GGUF key without its architecture prefix, e.g. `attention.head_count`; or else of
    /// the key with that name without a prefix (`xielu.beta`).
    fn get(&self, canonical_key: &str) -> Option<MetadataValue>;

    /// Every canonical key.
    fn keys(&self) -> Vec<String>;

    /// Full names of metadata keys outside the architecture prefix (`general.name`, `tokenizer.ggml.model`); they are
    /// checked against the table `harmless.toml`.
    fn foreign_keys(&self) -> Vec<String> {
        Vec::new()
    }

    /// The spelling of a canonical key in the file, if its keys are translated.
    fn spelled(&self, _canonical_key: &str) -> Option<String> {
        None
    }

    /// The file's own names and their use; `None` if its keys are canonical.
    fn names(&self) -> Option<&[NamedKey]> {
        None
    }

    /// Faults of the file's own names: the name, and what is wrong.
    fn faults(&self) -> &[(String, String)] {
        &[]
    }

    /// Keys for other programs in a GGUF file converted from this one (`[hf.write]`): nothing here is computed from
    /// them.
    ///
    /// # Errors
    /// What is wrong with one, in words.
    fn for_files(&self) -> Result<BTreeMap<String, MetadataValue>, String> {
        Ok(BTreeMap::new())
    }

    /// Whether the head is the embedding, if the file says it.
    fn head_is_embedding(&self) -> Option<bool> {
        None
    }
}

/// A name of a file with translated keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    /// The name, dotted.
    pub name: String,
    /// Its use.
    pub is: NameUse,
}

/// The use of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameUse {
    /// It gave these canonical keys; none if it was only compared with supported values.
    Read(Vec<String>),
    /// It does not matter, for this reason.
    Ignored(String),
    /// An unknown name; with the nearest known name, as a clause.
    Unknown(String),
}

impl KeySource for BTreeMap<String, MetadataValue> {
    fn get(&self, canonical_key: &str) -> Option<MetadataValue> {
        BTreeMap::get(self, canonical_key).cloned()
    }

    fn keys(&self) -> Vec<String> {
        BTreeMap::keys(self).cloned().collect()
    }
}

/// The tensors of a model, by role.
pub trait RoleSource {
    /// Whether a role's tensor is in the file. `layer` is the block, or `None` for a tensor of the whole model.
    ///
    /// A role without suffix asks for its main tensor: `<name>.weight`, or `<name>` alone. A role written with its
    /// suffix (`attn_q.bias`) asks for exactly that tensor. Names are after `[gguf.tensors]`
    /// ([`crate::ArchSpec::role_to_gguf_name`]).
    fn has(&self, role: &str, layer: Option<usize>) -> bool;
}

/// The format of weights and keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceFormat {
    /// A GGUF file.
    Gguf,
    /// A Hugging Face model directory; its `KeySource` gives canonical keys.
    Hf,
}

impl SourceFormat {
    /// The word used in specs: `gguf` or `hf`.
    pub fn name(self) -> &'static str {
        match self {
            SourceFormat::Gguf => "gguf",
            SourceFormat::Hf => "hf",
        }
    }
}

/// The input of a resolution.
pub struct ResolveInput<'a> {
    /// Format of the model.
    pub source: SourceFormat,
    /// Name of the model file, for messages.
    pub file: String,
    /// Its architecture as the file spells it (`general.architecture`), used as the prefix of keys in messages.
    pub architecture: String,
    /// Its metadata.
    pub keys: &'a dyn KeySource,
    /// Its tensors.
    pub roles: &'a dyn RoleSource,
    /// Canonical keys set by the user (`--set key=value`, recipes); they take precedence over the file's.
    pub overrides: BTreeMap<String, MetadataValue>,
    /// Keys the user accepts unread, canonical or with their prefix (`--accept-unread KEY`).
    pub accept_unread: Vec<String>,
    /// Whether the head that predicts further tokens is resolved too (`[nextn]`); a spec or a file without one is then a
    /// fault.
    pub nextn: bool,
}

impl<'a> ResolveInput<'a> {
    /// An input without overrides and accepted keys.
    pub fn new(
        source: SourceFormat,
        file: impl Into<String>,
        architecture: impl Into<String>,
        keys: &'a dyn KeySource,
        roles: &'a dyn RoleSource,
    ) -> Self {
        ResolveInput {
            source,
            file: file.into(),
            architecture: architecture.into(),
            keys,
            roles,
            overrides: BTreeMap::new(),
            accept_unread: Vec::new(),
            nextn: false,
        }
    }
}

impl std::fmt::Display for MetadataValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MetadataValue::Number(value) => write!(f, "{value}"),
            MetadataValue::Integer(value) => write!(f, "{value}"),
            MetadataValue::Bool(value) => write!(f, "{value}"),
            MetadataValue::Text(value) => write!(f, "\"{value}\""),
            MetadataValue::List(values) => {
                let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}
