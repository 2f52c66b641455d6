//! Names of repositories, revisions and files: which are valid, and how they are written.

/// Whether a text is a valid part of a repository's name, revision or label.
pub(crate) fn is_name(part: &str) -> bool {
    !part.is_empty()
        && !part.starts_with('.')
        && !part.contains("..")
        && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether a file name of a repository stays inside its folder.
pub(crate) fn is_safe_file(file: &str) -> bool {
    !file.is_empty()
        && !file.contains(['\\', '\0'])
        && file.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

/// A file of a repository, as a user can type it.
pub(crate) fn file_name(id: &str, revision: &str, file: &str) -> String {
    if revision == "main" { format!("hf:{id}/{file}") } else { format!("hf:{id}@{revision}/{file}") }
}
