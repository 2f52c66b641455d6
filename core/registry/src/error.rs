//! [`RegistryError`]: an architecture that cannot be looked up, and why.

use menagerie_entries::{DuplicateName, nearest_clause};
use menagerie_files::path_text;
use menagerie_spec::kind::KindsError;
use std::path::PathBuf;

/// Why an architecture could not be found or loaded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The environment has no architecture.
    #[error(
        "no architectures are linked in: enable the feature `architectures` of the crate `menagerie`, or add `use menagerie_all as _;` to the program"
    )]
    Empty,
    /// The name cannot be one of an architecture.
    #[error("`{0}` is not a valid architecture name (1 to 64 letters, digits, `-`, `_`, `.`)")]
    InvalidName(String),
    /// No spec has the name.
    #[error("architecture `{name}` is not known{}; `menagerie spec new FILE` drafts a spec of a GGUF file; give a spec with --spec FILE or --spec-dir DIR; `menagerie list` shows the known architectures", nearest_clause(.nearest.as_deref()))]
    Unknown {
        /// The name in the file.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// No spec has the class of a config.json.
    #[error("no spec has the class `{name}` of config.json{}; write a spec that extends the nearest architecture and lists the class under [architecture] hf, and give it with --spec FILE or --spec-dir DIR (`menagerie spec new` drafts one where there is a GGUF file of the model); `menagerie list` shows the known architectures", nearest_clause(.nearest.as_deref()))]
    UnknownClass {
        /// The class.
        name: String,
        /// The nearest known class.
        nearest: Option<String>,
    },
    /// A folder fits several specs of its class.
    #[error("class `{name}` is of the specs {}, and the model fits them all; name the one that is meant: --spec FILE", .ids.join(" and "))]
    ClassOfSeveral {
        /// The class.
        name: String,
        /// Ids of the specs.
        ids: Vec<String>,
    },
    /// The spec of the name has faults.
    #[error("the spec of architecture `{id}` cannot be used:\n{faults}")]
    Faulty {
        /// Id of the spec.
        id: String,
        /// All faults, a paragraph each.
        faults: String,
    },
    /// A file's spec lists a name in files that a spec of another id has.
    #[error("{}: [architecture] gguf lists `{name}`, which {by} has; take it out", path_text(.path))]
    NameTaken {
        /// The file.
        path: PathBuf,
        /// The name in files.
        name: String,
        /// The spec that has it.
        by: String,
    },
    /// Two things of one family have one name.
    #[error(transparent)]
    Duplicate(#[from] DuplicateName),
    /// A factory makes something else than its kind is.
    #[error(
        "{crate_name} registers {family} kind `{name}` with a factory of another family: what it builds would stand in the wrong place; have that crate mended, or leave it out"
    )]
    KindFamily {
        /// The family of the kind.
        family: &'static str,
        /// The name.
        name: &'static str,
        /// The crate.
        crate_name: &'static str,
    },
    /// The kinds of the crates that are linked in cannot be used together.
    #[error(transparent)]
    Kinds(#[from] KindsError),
    /// A file that was named as a spec is none.
    #[error("{}: {reason}; give a file ID.toml with --spec, a folder of them with --spec-dir", path_text(.path))]
    NotASpec {
        /// What was named.
        path: PathBuf,
        /// Why it is none.
        reason: String,
    },
    /// A recipe's file cannot be read.
    #[error("recipe {}: {reason}", path_text(.path))]
    Recipe {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A spec folder that was asked for cannot be read.
    #[error("spec folder {}: {reason} (from {from})", path_text(.path))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
        /// Who named it.
        from: &'static str,
    },
}
