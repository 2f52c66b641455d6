//! [`ModelReference`]: what a user types where a model is wanted.

use crate::HubError;
use crate::package;
use std::fmt;
use std::path::{Path, PathBuf};

/// A model, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelReference {
    /// A file or folder on this machine.
    Path(PathBuf),
    /// A name of [`package::PACKAGES`].
    Alias(&'static package::Package),
    /// A repository of the hub.
    Repository {
        /// `org/repo`.
        id: String,
        /// Branch, tag or commit.
        revision: String,
        /// Quantisation wanted, e.g. `Q4_K_M`.
        quantisation: Option<String>,
        /// One file of it.
        file: Option<String>,
    },
}

impl ModelReference {
    /// Reads a path, an alias, `org/repo`, `org/repo:QUANT`, `org/repo@revision` or `hf:org/repo/file.gguf`.
    ///
    /// What exists on disk, ends in `.gguf`, or begins like a path is a path.
    ///
    /// # Errors
    /// [`HubError::Reference`] with what was expected.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        if let Some(rest) = text.strip_prefix("hf:") {
            return Self::repository(text, rest);
        }
        let path = Path::new(text);
        let like_path = text.ends_with(".gguf") || text.starts_with(['.', '/', '~']) || path.is_absolute();
        if like_path || path.exists() {
            return Ok(Self::Path(path.to_owned()));
        }
        if let Some(package) = package::PACKAGES.iter().find(|package| package.alias == text) {
            return Ok(Self::Alias(package));
        }
        if !text.contains('/') {
            return Err(Self::error(text, "there is no such file and no such alias"));
        }
        Self::repository(text, text)
    }

    fn repository(text: &str, rest: &str) -> Result<Self, HubError> {
        let (rest, quantisation) = match rest.split_once(':') {
            Some((rest, quantisation)) => (rest, Some(quantisation.to_owned())),
            None => (rest, None),
        };
        let (rest, revision) = rest.split_once('@').unwrap_or((rest, "main"));
        let mut parts = rest.splitn(3, '/');
        let (org, name, file) = (parts.next(), parts.next(), parts.next());
        let (Some(org), Some(name)) = (org, name) else {
            return Err(Self::error(text, "there is no such file, and a repository is `org/repo`"));
        };
        let valid = |part: &str| {
            !part.is_empty()
                && !part.starts_with('.')
                && !part.contains("..")
                && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        };
        let revision_valid = revision.split('/').all(valid);
        let file_valid = file.is_none_or(|file| is_safe_file(file) && file.ends_with(".gguf"));
        let quantisation_valid = quantisation.as_deref().is_none_or(valid);
        if !(valid(org) && valid(name) && revision_valid && file_valid && quantisation_valid) {
            return Err(Self::error(
                text,
                "a part of it is empty or has characters that a repository cannot have",
            ));
        }
        if file.is_some() && quantisation.is_some() {
            return Err(Self::error(text, "it names both a file and a quantisation"));
        }
        Ok(Self::Repository {
            id: format!("{org}/{name}"),
            revision: revision.to_owned(),
            quantisation,
            file: file.map(str::to_owned),
        })
    }

    fn error(text: &str, reason: &str) -> HubError {
        let aliases: Vec<&str> = package::PACKAGES.iter().map(|package| package.alias).collect();
        HubError::Reference { text: text.to_owned(), reason: reason.to_owned(), aliases: aliases.join(", ") }
    }
}

/// Whether a file name of a repository stays inside its folder.
pub(crate) fn is_safe_file(file: &str) -> bool {
    !file.is_empty()
        && !file.contains('\\')
        && file.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

impl fmt::Display for ModelReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Alias(package) => f.write_str(package.alias),
            Self::Repository { id, revision, quantisation, file } => {
                f.write_str(id)?;
                if revision != "main" {
                    write!(f, "@{revision}")?;
                }
                if let Some(quantisation) = quantisation {
                    write!(f, ":{quantisation}")?;
                }
                if let Some(file) = file {
                    write!(f, "/{file}")?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(
        id: &str,
        revision: &str,
        quantisation: Option<&str>,
        file: Option<&str>,
    ) -> ModelReference {
        ModelReference::Repository {
            id: id.to_owned(),
            revision: revision.to_owned(),
            quantisation: quantisation.map(str::to_owned),
            file: file.map(str::to_owned),
        }
    }

    #[test]
    fn every_form_is_read() {
        let parse = |text| ModelReference::parse(text).unwrap();
        assert_eq!(parse("a/b"), repository("a/b", "main", None, None));
        assert_eq!(parse("a/b:Q4_K_M"), repository("a/b", "main", Some("Q4_K_M"), None));
        assert_eq!(parse("a/b@v1:Q8_0"), repository("a/b", "v1", Some("Q8_0"), None));
        assert_eq!(parse("hf:a/b/c/d.gguf"), repository("a/b", "main", None, Some("c/d.gguf")));
        assert_eq!(parse("x.gguf"), ModelReference::Path("x.gguf".into()));
        assert_eq!(parse("./a/b"), ModelReference::Path("./a/b".into()));
        assert!(matches!(parse("smollm2"), ModelReference::Alias(package) if package.alias == "smollm2"));
    }

    #[test]
    fn what_leaves_the_folder_is_refused() {
        for text in
            ["a/../b", "hf:a/b/../../x.gguf", "a/b:../x", "a/", "nonsense", "a/b@../x", "hf:a/b/c.gguf:Q4_0"]
        {
            assert!(ModelReference::parse(text).is_err(), "{text}");
        }
    }
}
