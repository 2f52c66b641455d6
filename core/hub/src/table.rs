//! Reads a table of models. Every value is validated, because tables may be untrusted.

use crate::HubError;
use crate::catalog_model::{CatalogFile, CatalogModel, Wheel};
use crate::checksum::Checksum;
use crate::identifiers::{is_name, is_safe_file};
use toml_span::{Span, Value};

/// Largest size of a file in a table, in bytes.
const LONGEST: u64 = 1 << 50;

/// An error in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableFault {
    /// File, line and column.
    place: String,
    /// Entry, key and error.
    problem: String,
}

impl From<TableFault> for HubError {
    fn from(fault: TableFault) -> Self {
        Self::Catalog { place: fault.place, problem: fault.problem }
    }
}

/// The models of a table; `name` is its file, `table` the origin in its models (`None` for the built-in table).
pub(crate) fn read(name: &str, source: &str, table: Option<&str>) -> Result<Vec<CatalogModel>, TableFault> {
    read_models(source, table).map_err(|(offset, problem)| {
        let before = source.get(..offset).unwrap_or(source);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let line = before.matches('\n').count() + 1;
        TableFault { place: format!("{name}:{line}:{column}"), problem }
    })
}

/// Byte and problem.
type Fault = (usize, String);

fn read_models(source: &str, table: Option<&str>) -> Result<Vec<CatalogModel>, Fault> {
    let root = toml_span::parse(source).map_err(|error| (error.span.start, error.to_string()))?;
    let top = TableEntry { value: &root, place: String::new() };
    top.only(&["schema", "model"])?;
    if root.pointer("/schema").and_then(Value::as_integer) != Some(1) {
        return Err(top.fault("schema", "expected 1 (`schema = 1`); other versions are not supported"));
    }
    let list = root.pointer("/model").and_then(Value::as_array);
    let list = list.ok_or_else(|| top.fault("model", "the table has no [[model]]"))?;
    let mut models: Vec<CatalogModel> = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let entry = TableEntry { value, place: format!("model[{at}]") };
        let model = read_model(&entry, table)?;
        if models.iter().any(|known| known.name == model.name) {
            return Err(entry.fault("name", &format!("`{}` occurs twice", model.name)));
        }
        models.push(model);
    }
    Ok(models)
}

/// A TOML table and its name in messages.
struct TableEntry<'a> {
    value: &'a Value<'a>,
    place: String,
}

impl TableEntry<'_> {
    /// An error of a key, at its value, or at the table if the key is missing.
    fn fault(&self, key: &str, problem: &str) -> Fault {
        let span = self.value.pointer(&format!("/{key}")).map_or(self.value.span, |value| value.span);
        self.fault_at(span, key, problem)
    }

    fn fault_at(&self, span: Span, key: &str, problem: &str) -> Fault {
        let dot = if self.place.is_empty() || key.is_empty() { "" } else { "." };
        (span.start, format!("{}{dot}{key}: {problem}", self.place))
    }

    /// Refuses unknown keys.
    fn only(&self, known: &[&str]) -> Result<(), Fault> {
        let table = self.value.as_table().ok_or_else(|| self.fault("", "expected a table"))?;
        match table.keys().find(|key| !known.contains(&key.name.as_ref())) {
            Some(key) => {
                let problem = format!("unknown key; the keys are {}", known.join(", "));
                Err(self.fault_at(key.span, &key.name, &problem))
            }
            None => Ok(()),
        }
    }

    fn optional(&self, key: &str) -> Result<Option<String>, Fault> {
        let Some(value) = self.value.pointer(&format!("/{key}")) else { return Ok(None) };
        match value.as_str() {
            // They would control the terminal on which the table is listed.
            Some(text) if text.chars().any(char::is_control) => {
                Err(self.fault(key, "control characters are not allowed"))
            }
            Some(text) if !text.is_empty() => Ok(Some(text.to_owned())),
            _ => Err(self.fault(key, "expected a non-empty string")),
        }
    }

    fn text(&self, key: &str) -> Result<String, Fault> {
        self.optional(key)?.ok_or_else(|| self.fault(key, "missing"))
    }

    /// A string that satisfies a rule.
    fn ruled(&self, key: &str, rule: &str, holds: impl Fn(&str) -> bool) -> Result<String, Fault> {
        let text = self.text(key)?;
        if holds(&text) { Ok(text) } else { Err(self.fault(key, &format!("expected {rule}"))) }
    }

    fn sha256(&self) -> Result<String, Fault> {
        let is = |text: &str| matches!(Checksum::of_name(text), Some(Checksum::Sha256(same)) if same == text);
        self.ruled("sha256", "a SHA-256 in 64 lower-case hexadecimal digits", is)
    }

    fn bytes(&self) -> Result<u64, Fault> {
        let value = self.value.pointer("/bytes").ok_or_else(|| self.fault("bytes", "missing"))?;
        let bytes = value.as_integer().and_then(|bytes| u64::try_from(bytes).ok());
        let bytes = bytes.filter(|bytes| (1..=LONGEST).contains(bytes));
        bytes.ok_or_else(|| self.fault("bytes", &format!("expected a size in bytes, 1 to {LONGEST}")))
    }
}

fn read_model(entry: &TableEntry<'_>, table: Option<&str>) -> Result<CatalogModel, Fault> {
    entry.only(&["name", "summary", "license", "repository", "revision", "default", "file"])?;
    let summary = entry.text("summary")?;
    let plain = |text: &str| is_name(text) && text == text.to_ascii_lowercase();
    let name = entry.ruled("name", "a lower-case name without slashes", plain)?;
    let entry = &TableEntry { value: entry.value, place: format!("{} ({name})", entry.place) };
    let list = entry.value.pointer("/file").and_then(Value::as_array);
    let list = list.ok_or_else(|| entry.fault("file", "the model has no [[model.file]]"))?;
    let mut files: Vec<CatalogFile> = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let place = format!("{}, file[{at}]", entry.place);
        files.push(read_file(&TableEntry { value, place }, table.is_none())?);
    }
    let repository = entry.optional("repository")?;
    if let Some(repository) = &repository
        && !repository.split_once('/').is_some_and(|(org, name)| is_name(org) && is_name(name))
    {
        return Err(entry.fault("repository", "expected org/repo"));
    }
    if repository.is_none() && files.iter().any(|file| file.pip.is_empty()) {
        return Err(entry.fault("repository", "missing"));
    }
    let default = entry.text("default")?;
    if files.iter().filter(|file| file.quantization == default).count() != 1 {
        let problem = format!("it is {default}, but not exactly one file has that quantization");
        return Err(entry.fault("default", &problem));
    }
    let commit = |text: &str| text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let revision = match repository {
        Some(_) => entry.ruled("revision", "a commit in 40 hexadecimal digits", commit)?,
        None => String::new(),
    };
    let license = entry.text("license")?;
    let table = table.map(str::to_owned);
    Ok(CatalogModel { name, summary, license, repository, revision, default, files, table })
}

/// Reads a file; `own` is set for the built-in table.
fn read_file(entry: &TableEntry<'_>, own: bool) -> Result<CatalogFile, Fault> {
    entry.only(&["quantization", "file", "bytes", "sha256", "pip"])?;
    let pip = match entry.value.pointer("/pip") {
        None => Vec::new(),
        Some(_) if !own => {
            let key = entry.value.as_table().and_then(|table| table.keys().find(|key| key.name == "pip"));
            let span = key.map_or(entry.value.span, |key| key.span);
            let problem = "only the built-in table may name packages; remove it and give `repository`";
            return Err(entry.fault_at(span, "pip", problem));
        }
        Some(value) => match value.as_array() {
            Some(parts) if parts.is_empty() => return Err(entry.fault("pip", "an empty list")),
            Some(parts) => parts.iter().map(|part| read_wheel(part, entry)).collect::<Result<_, _>>()?,
            None => vec![read_wheel(value, entry)?],
        },
    };
    Ok(CatalogFile {
        quantization: entry.ruled("quantization", "a label", is_name)?,
        file: entry.ruled("file", "a path of a .gguf file inside the repository", |text| {
            is_safe_file(text) && text.ends_with(".gguf")
        })?,
        bytes: entry.bytes()?,
        sha256: entry.sha256()?,
        pip,
    })
}

fn read_wheel(value: &Value, file: &TableEntry<'_>) -> Result<Wheel, Fault> {
    let wheel = TableEntry { value, place: format!("{}, pip", file.place) };
    wheel.only(&["requirement", "sha256"])?;
    let pinned =
        |text: &str| text.split_once("==").is_some_and(|(name, version)| is_name(name) && is_name(version));
    let pinned = |text: &str| !text.starts_with('-') && pinned(text);
    let requirement = wheel.ruled("requirement", "a pinned NAME==VERSION", pinned)?;
    Ok(Wheel { requirement, sha256: wheel.sha256()? })
}
