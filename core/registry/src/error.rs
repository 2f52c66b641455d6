//! [`RegistryError`]: the reason why an architecture cannot be found or used.

use menagerie_entries::{DuplicateName, nearest_clause};
use menagerie_files::path_text;
use menagerie_spec::kind::KindsError;
use std::path::PathBuf;

/// The reason why an architecture could not be found or loaded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// The environment has no architecture.
    #[error(
        "no architectures are linked in: enable the feature `architectures` of the crate `menagerie`, or add `use menagerie_all as _;` to the program"
    )]
    Empty,
    /// The text is not a valid name.
    #[error("`{0}` is not a valid architecture name (1 to 64 letters, digits, `-`, `_`, `.`)")]
    InvalidName(String),
    /// No spec has this name.
    #[error("architecture `{name}` is not known{}; `menagerie spec new FILE` drafts a spec of a GGUF file; give a spec with --spec FILE or --spec-dir DIR; `menagerie list` shows the known architectures", nearest_clause(.nearest.as_deref()))]
    Unknown {
        /// The name in the file.
        name: String,
        /// The nearest known name.
        nearest: Option<String>,
    },
    /// No spec has the class of config.json.
    #[error("no spec has the class `{name}` of config.json{}; write a spec that extends the nearest architecture and lists the class under [architecture] hf, and give it with --spec FILE or --spec-dir DIR (`menagerie spec new` drafts one from a GGUF file of the model); `menagerie list` shows the known architectures", nearest_clause(.nearest.as_deref()))]
    UnknownClass {
        /// The class.
        name: String,
        /// The nearest known class.
        nearest: Option<String>,
    },
    /// Several specs have the class of a folder and fit its model.
    #[error("the specs {} all have the class `{name}` and fit the model; choose one with --spec FILE", .ids.join(" and "))]
    ClassOfSeveral {
        /// The class.
        name: String,
        /// Ids of the specs.
        ids: Vec<String>,
    },
    /// The spec with this name has faults.
    #[error("the spec of architecture `{id}` cannot be used:\n{faults}")]
    Faulty {
        /// Id of the spec.
        id: String,
        /// All faults, one paragraph each.
        faults: String,
    },
    /// A spec of a file lists a name that another spec has.
    #[error("{}: [architecture] gguf lists `{name}`, which is already a name of {by}; remove it", path_text(.path))]
    NameTaken {
        /// The file.
        path: PathBuf,
        /// The name in files.
        name: String,
        /// The origin of the spec that has it.
        by: String,
    },
    /// Two entries of one family have the same name.
    #[error(transparent)]
    Duplicate(#[from] DuplicateName),
    /// A factory is of another family than its kind.
    #[error(
        "{crate_name} registers the {family} kind `{name}` with a factory of another family, which is a defect of that crate; update it, or do not link it"
    )]
    KindFamily {
        /// The family of the kind.
        family: &'static str,
        /// The name.
        name: &'static str,
        /// The crate.
        crate_name: &'static str,
    },
    /// The kinds of the linked crates conflict.
    #[error(transparent)]
    Kinds(#[from] KindsError),
    /// A file that was named as a spec is not a spec.
    #[error("{}: {reason}; give a file ID.toml with --spec, a folder of them with --spec-dir", path_text(.path))]
    NotASpec {
        /// The path that was named.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A recipe's file cannot be read.
    #[error("recipe {}: {reason}", path_text(.path))]
    Recipe {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A requested spec folder cannot be read.
    #[error("spec folder {}: {reason} (from {from})", path_text(.path))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        reason: String,
        /// The flag or variable that named it.
        from: &'static str,
    },
}
