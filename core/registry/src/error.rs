//! [`RegistryError`]: an architecture that cannot be looked up, and why.

use std::path::PathBuf;

/// Why an architecture could not be found or loaded.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Nothing was registered.
    #[error("no architectures are linked in: the binary, test or bench must say `use menagerie_all as _;`")]
    Empty,
    /// The name cannot be one of an architecture.
    #[error("`{0}` is not a valid architecture name (1 to 64 letters, digits, `-`, `_`, `.`)")]
    InvalidName(String),
    /// No spec has the name.
    #[error("architecture `{name}` is not known{}; put a spec for it into a spec folder (--spec-dir DIR), or see `menagerie list`", nearest_clause(.nearest))]
    Unknown {
        /// The name in the file.
        name: String,
        /// Known names that look alike, best first.
        nearest: Vec<String>,
    },
    /// The spec of the name has faults.
    #[error("the spec of architecture `{id}` cannot be used:\n{faults}")]
    Faulty {
        /// Id of the spec.
        id: String,
        /// All faults, a paragraph each.
        faults: String,
    },
    /// A file would replace another spec of the same name.
    #[error("{} would shadow {shadowed}; rename it (file and id), or pass --allow-shadow to use it instead", .path.display())]
    Shadow {
        /// The file.
        path: PathBuf,
        /// What it would replace.
        shadowed: String,
    },
    /// A project-local folder may only add ids.
    #[error("{} would shadow {shadowed}; a project-local folder may only add architectures: rename it (file and id), or pass its folder as --spec-dir with --allow-shadow", .path.display())]
    ProjectShadow {
        /// The file.
        path: PathBuf,
        /// What it would replace.
        shadowed: String,
    },
    /// Two built-in crates registered the same name.
    #[error("architecture `{name}` is registered twice, by {first} and by {second}")]
    Duplicate {
        /// The name.
        name: String,
        /// First crate.
        first: String,
        /// Second crate.
        second: String,
    },
    /// A spec folder that was asked for cannot be read.
    #[error("spec folder {}: {reason}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

fn nearest_clause(nearest: &[String]) -> String {
    if nearest.is_empty() {
        return String::new();
    }
    let names: Vec<String> = nearest.iter().map(|name| format!("`{name}`")).collect();
    format!("; the nearest known: {}", names.join(", "))
}
