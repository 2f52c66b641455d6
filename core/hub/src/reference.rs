//! [`ModelReference`]: a model as the user names it.

use crate::HubError;
use crate::catalog::Catalog;
use crate::catalog_model::ListedModel;
use crate::identifiers::{file_name, is_name, is_safe_file};
use menagerie_entries::nearest_clause;
use menagerie_files::path_text;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// Hosts whose URLs are repositories.
const HOSTS: [&str; 3] = ["huggingface.co/", "www.huggingface.co/", "hf.co/"];

/// A model, as a user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelReference {
    /// A file or folder on this machine.
    Path(PathBuf),
    /// A short name of the [`Catalog`], with or without a quantization.
    ShortName(Box<ListedModel>),
    /// A repository of the hub.
    Repository {
        /// `org/repo`.
        id: String,
        /// Branch, tag or commit.
        revision: String,
        /// Quantization wanted, e.g. `Q4_K_M`.
        quantization: Option<String>,
        /// One file of it.
        file: Option<String>,
    },
}

impl ModelReference {
    /// Parses a path, a short name, `org/repo`, `org/repo:QUANT`, `org/repo@revision`, `hf:org/repo/file.gguf`,
    /// `hf:org/repo@revision/file.gguf`, or the URL of a repository or file on the hub.
    ///
    /// A text that exists on disk, ends in `.gguf`, or begins like a path is a path.
    ///
    /// # Errors
    /// [`HubError::Reference`] with the expected forms.
    pub fn parse(text: &str) -> Result<Self, HubError> {
        Self::parse_at(text, Catalog::built_in()?, "")
    }

    /// [`Self::parse`] with the short names of `catalog`, and also with URLs of the hub at `endpoint`.
    pub(crate) fn parse_at(text: &str, catalog: &Catalog, endpoint: &str) -> Result<Self, HubError> {
        let read = match page_at(text, endpoint) {
            Some(page) => Self::page_path(page),
            None => Self::read(text, catalog),
        };
        read.map_err(|reason| {
            let names: Vec<&str> = catalog.models.iter().map(|model| model.name.as_str()).collect();
            let mut shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
            if names.len() > SHOWN {
                shown = format!("{shown} and {} more", names.len() - SHOWN);
            }
            HubError::Reference { text: text.to_owned(), reason, names: shown }
        })
    }

    /// The path of a text that is one: it is not UTF-8, exists on disk, ends in `.gguf`, or begins like a path.
    pub fn path(text: impl AsRef<OsStr>) -> Option<PathBuf> {
        let path = Path::new(text.as_ref());
        let Some(text) = path.to_str() else { return Some(path.to_owned()) };
        let like_path = text.ends_with(".gguf") || text.starts_with(['.', '/', '~']) || path.is_absolute();
        let elsewhere =
            ["hf:", "https://", "http://"].iter().chain(&HOSTS).any(|prefix| text.starts_with(prefix));
        (!elsewhere && (like_path || path.exists())).then(|| path.to_owned())
    }

    fn read(text: &str, catalog: &Catalog) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("hf:") {
            return Self::repository(rest.trim_start_matches("//"));
        }
        if let Some(address) = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")) {
            return Self::page(address);
        }
        if let Some(page) = HOSTS.iter().find_map(|host| text.strip_prefix(host)) {
            return Self::page_path(page);
        }
        if let Some(path) = Self::path(text) {
            return Ok(Self::Path(path));
        }
        if !text.contains('/') {
            return Self::listed(text, catalog);
        }
        Self::repository(text)
    }

    fn listed(text: &str, catalog: &Catalog) -> Result<Self, String> {
        match catalog.find(text)? {
            Some(listed) => Ok(Self::ShortName(Box::new(listed))),
            None => {
                let near = nearest_clause(catalog.nearest(text.split(':').next().unwrap_or(text)));
                Err(format!("there is no file and no short name of this kind{near}"))
            }
        }
    }

    /// Parses the text after `https://`.
    fn page(address: &str) -> Result<Self, String> {
        match HOSTS.iter().find_map(|host| address.strip_prefix(host)) {
            Some(page) => Self::page_path(page),
            None => Err("only URLs of the hub can be downloaded; download the file with another tool and pass its path".to_owned()),
        }
    }

    /// `org/repo`, `org/repo/tree/REVISION`, `org/repo/blob/REVISION/FILE` or `org/repo/resolve/REVISION/FILE`.
    fn page_path(page: &str) -> Result<Self, String> {
        let page = page.split(['?', '#']).next().unwrap_or(page).trim_end_matches('/');
        let parts: Vec<&str> = page.split('/').collect();
        let rest = match parts.as_slice() {
            [org, name] => format!("{org}/{name}"),
            [org, name, "tree", revision] => format!("{org}/{name}@{revision}"),
            [org, name, "blob" | "resolve", revision, file @ ..] if !file.is_empty() => {
                format!("{org}/{name}@{revision}/{}", file.join("/"))
            }
            _ => {
                return Err(
                    "this page of the hub is neither a repository nor a file of a repository".to_owned()
                );
            }
        };
        Self::repository(&rest)
    }

    fn repository(rest: &str) -> Result<Self, String> {
        let (rest, quantization) = match rest.split_once(':') {
            Some((rest, quantization)) => (rest, Some(quantization.to_owned())),
            None => (rest, None),
        };
        let (place, revision) = match rest.split_once('@') {
            Some((place, revision)) => (place, Some(revision)),
            None => (rest, None),
        };
        let mut parts = place.splitn(3, '/');
        let (org, name, mut file) = (parts.next(), parts.next(), parts.next());
        let (Some(org), Some(name)) = (org, name) else {
            return Err("the file does not exist, and the name of a repository is `org/repo`".to_owned());
        };
        let revision = match revision {
            Some(revision) if revision.ends_with(".gguf") => {
                let (revision, named) = split_revision(revision);
                file = file.or(named);
                revision
            }
            other => other.unwrap_or("main"),
        };
        let revision_valid = revision.split('/').all(is_name);
        let file_valid = file.is_none_or(|file| is_safe_file(file) && file.ends_with(".gguf"));
        let quantization_valid = quantization.as_deref().is_none_or(is_name);
        if !(is_name(org) && is_name(name) && revision_valid && file_valid && quantization_valid) {
            return Err("a part of it is empty or has characters that are not allowed".to_owned());
        }
        if file.is_some() && quantization.is_some() {
            return Err("it has both a file and a quantization".to_owned());
        }
        Ok(Self::Repository {
            id: format!("{org}/{name}"),
            revision: revision.to_owned(),
            quantization,
            file: file.map(str::to_owned),
        })
    }
}

/// The part of a URL after the address of the hub at `endpoint`, with http or https.
fn page_at<'a>(text: &'a str, endpoint: &str) -> Option<&'a str> {
    let bare =
        |address: &'a str| address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let hub = endpoint.split_once("://").map(|(_, hub)| hub).filter(|hub| !hub.is_empty())?;
    bare(text)?.strip_prefix(hub)?.strip_prefix('/')
}

/// Number of short names in an error.
const SHOWN: usize = 4;

/// Splits `main/dir/file.gguf` into revision and file; `refs/pr/1` is one revision.
fn split_revision(text: &str) -> (&str, Option<&str>) {
    let slashes = if text.starts_with("refs/") { 3 } else { 1 };
    match text.match_indices('/').nth(slashes - 1) {
        Some((at, _)) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

impl fmt::Display for ModelReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(&path_text(path)),
            Self::ShortName(listed) => f.write_str(&listed.name()),
            Self::Repository { id, revision, file: Some(file), .. } => {
                f.write_str(&file_name(id, revision, file))
            }
            Self::Repository { id, revision, quantization, .. } => {
                f.write_str(id)?;
                if revision != "main" {
                    write!(f, "@{revision}")?;
                }
                if let Some(quantization) = quantization {
                    write!(f, ":{quantization}")?;
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
        quantization: Option<&str>,
        file: Option<&str>,
    ) -> ModelReference {
        ModelReference::Repository {
            id: id.to_owned(),
            revision: revision.to_owned(),
            quantization: quantization.map(str::to_owned),
            file: file.map(str::to_owned),
        }
    }

    #[test]
    fn every_form_is_read_and_written_back() {
        let parse = |text| ModelReference::parse(text).unwrap();
        for (text, wanted) in [
            ("a/b", repository("a/b", "main", None, None)),
            ("a/b:Q4_K_M", repository("a/b", "main", Some("Q4_K_M"), None)),
            ("a/b@v1:Q8_0", repository("a/b", "v1", Some("Q8_0"), None)),
            ("a/b@refs/pr/1", repository("a/b", "refs/pr/1", None, None)),
            ("hf:a/b/c/d.gguf", repository("a/b", "main", None, Some("c/d.gguf"))),
            ("hf:a/b@v1/c/d.gguf", repository("a/b", "v1", None, Some("c/d.gguf"))),
            ("hf:a/b@refs/pr/1/d.gguf", repository("a/b", "refs/pr/1", None, Some("d.gguf"))),
        ] {
            assert_eq!(parse(text), wanted, "{text}");
            assert_eq!(wanted.to_string(), text);
        }
        assert_eq!(parse("x.gguf"), ModelReference::Path("x.gguf".into()));
        assert_eq!(parse("./a/b"), ModelReference::Path("./a/b".into()));
        assert!(matches!(parse("SmolLM2"), ModelReference::ShortName(listed) if listed.name() == "smollm2"));
    }

    /// P13: what people copy from the hub's pages.
    #[test]
    fn addresses_of_the_hub_are_repositories() {
        let parse = |text| ModelReference::parse(text).unwrap();
        let plain = repository("a/b", "main", None, None);
        for text in ["https://huggingface.co/a/b", "hf.co/a/b", "https://hf.co/a/b/tree/main", "hf://a/b"] {
            assert_eq!(parse(text), plain, "{text}");
        }
        let file = repository("a/b", "v2", None, Some("d/e.gguf"));
        assert_eq!(parse("https://huggingface.co/a/b/blob/v2/d/e.gguf"), file);
        assert_eq!(parse("https://huggingface.co/a/b/resolve/v2/d/e.gguf?download=true"), file);
    }

    /// P12, P13: no path, no short name, and what to do instead.
    #[test]
    fn errors_say_what_is_near_or_possible() {
        let error = |text| ModelReference::parse(text).unwrap_err().to_string();
        assert!(error("smolm2").contains("the nearest is `smollm2`"), "{}", error("smolm2"));
        assert!(error("smollm2:Q8_0").contains("it has Q4_1"));
        assert!(error("https://example.com/m.gguf").contains("only URLs of the hub"));
        assert!(error("https://huggingface.co/a/b/discussions/1").contains("neither"));
    }

    #[test]
    fn what_leaves_the_folder_is_refused() {
        for text in [
            "a/../b",
            "hf:a/b/../../x.gguf",
            "a/b:../x",
            "a/",
            "nonsense",
            "a/b@../x",
            "hf:a/b/c.gguf:Q4_0",
            "https://huggingface.co/a/b/resolve/main/../../x.gguf",
            "hf:a/b@v1/../x.gguf",
        ] {
            assert!(ModelReference::parse(text).is_err(), "{text}");
        }
    }
}
