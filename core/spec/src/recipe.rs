//! [`Recipe`]: a model composed of a base, adapters, experts and keys that its files lack.

mod mixture;

pub use mixture::{MixtureChoice, RecipeExpert, RecipeMixture};

use crate::text::fault::SpecFaults;
use crate::text::source::{MetadataValue, SpecSource};
use crate::text::tree::{self, Item, SourcePlace, TomlEntry, TomlNode, TomlTable};
use menagerie_entries::{nearest, nearest_clause};
use std::collections::BTreeMap;

/// The supported version of the language.
const SCHEMA: i64 = 1;

/// The end of a recipe's file name.
pub const RECIPE_SUFFIX: &str = ".recipe.toml";

/// A recipe, as written: `*.recipe.toml`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Recipe {
    /// Its name; by default that of the file.
    pub id: String,
    /// One line of description; may be empty.
    pub summary: String,
    /// The base.
    pub base: RecipeBase,
    /// Adapters, in order.
    pub adapters: Vec<RecipeAdapter>,
    /// The mixture of its feed-forwards.
    pub mixture: Option<RecipeMixture>,
    /// Canonical keys that override those of the base's files.
    pub set: BTreeMap<String, MetadataValue>,
    /// The chat template: a name in the tables of chats, or a file next to the recipe.
    pub chat_template: Option<String>,
}

/// The base of a recipe.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecipeBase {
    /// A model reference; a path is relative to the recipe.
    Model(String),
    /// Any model of this architecture: the recipe is a template, and models and adapters are named when it is used.
    Architecture(String),
}

/// An adapter of a recipe.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RecipeAdapter {
    /// Its method.
    pub kind: AdapterKind,
    /// Its location, relative to the recipe if it is a path; absent in a template.
    pub from: Option<String>,
    /// The factor of its output.
    pub weight: f64,
}

/// Methods of adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AdapterKind {
    /// Low-rank adapters (Hu et al., 2021).
    Lora,
    /// Several of those, mixed for every token and layer (Buehler and Buehler, 2024).
    XLora,
}

impl AdapterKind {
    /// Its name in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lora => "lora",
            Self::XLora => "xlora",
        }
    }
}

impl Recipe {
    /// Reads a recipe.
    ///
    /// # Errors
    /// All faults, each with its place.
    pub fn parse(source: &SpecSource) -> Result<Self, SpecFaults> {
        let mut reader = RecipeReader::default();
        let recipe = match tree::read(source) {
            Ok(document) => reader.recipe(&document, source),
            Err(fault) => {
                reader.faults.push(fault);
                None
            }
        };
        reader.faults.check(recipe)
    }

    /// The default id of a file: its name without `.recipe.toml`.
    pub fn id_of_file(file: &str) -> String {
        let name = file.rsplit(['/', '\\', ':']).next().unwrap_or(file);
        name.strip_suffix(RECIPE_SUFFIX).unwrap_or(name).to_owned()
    }
}

#[derive(Default)]
struct RecipeReader {
    faults: SpecFaults,
}

/// An opened table, with the path of its keys.
struct Open<'a> {
    table: &'a TomlTable,
    place: &'a SourcePlace,
    path: &'a str,
}

impl Open<'_> {
    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

impl RecipeReader {
    fn recipe(&mut self, document: &TomlNode, source: &SpecSource) -> Option<Recipe> {
        let root = self.open(document, "", &["schema", "recipe", "adapters", "mixture", "set", "chat"])?;
        self.schema(&root);
        let head = match root.table.get("recipe") {
            Some(node) => self.open(node, "recipe", &["id", "base", "architecture", "summary"]),
            None => self.missing(&root, "recipe", "a table with `base`"),
        };
        let base = head.as_ref().and_then(|head| self.base(head));
        let id = head.as_ref().and_then(|head| self.id(head));
        let summary = head.as_ref().and_then(|head| self.text(head, "summary"));
        let is_form = matches!(base, Some(RecipeBase::Architecture(_)));
        let adapters = root.table.get("adapters").map(|node| self.adapters(node, is_form));
        let mixture = root.table.get("mixture").and_then(|node| self.mixture(node, is_form));
        let set = root.table.get("set").map(|node| self.set(node)).unwrap_or_default();
        let chat = root.table.get("chat").and_then(|node| self.open(node, "chat", &["template"]));
        let chat_template = chat.and_then(|chat| self.text(&chat, "template"));
        Some(Recipe {
            id: id.unwrap_or_else(|| Recipe::id_of_file(&source.name)),
            summary: summary.unwrap_or_default(),
            base: base?,
            adapters: adapters.unwrap_or_default(),
            mixture,
            set,
            chat_template,
        })
    }

    fn schema(&mut self, root: &Open<'_>) {
        match root.table.get("schema").map(|node| (&node.item, &node.place)) {
            None => {
                self.missing::<()>(root, "schema", "`schema = 1`");
            }
            Some((Item::Integer(SCHEMA), _)) => {}
            Some((item, place)) => {
                let message = format!("found {}; this program reads schema {SCHEMA}", item.describe());
                self.faults.push(place.fault("schema", message));
            }
        }
    }

    /// Either a model or an architecture.
    fn base(&mut self, head: &Open<'_>) -> Option<RecipeBase> {
        let model = self.text(head, "base");
        let architecture = self.text(head, "architecture");
        match (head.table.entry("base"), head.table.entry("architecture")) {
            (Some(_), None) => model.map(RecipeBase::Model),
            (None, Some(_)) => architecture.map(RecipeBase::Architecture),
            (Some(_), Some(second)) => {
                let message =
                    "`base` names one model and `architecture` any of its kind; keep one of the two";
                self.faults.push(second.key_place.fault("recipe.architecture", message));
                None
            }
            (None, None) => self.missing(
                head,
                "base",
                "a model (a path, org/repo, a short name), or `architecture` for any model of one",
            ),
        }
    }

    fn id(&mut self, head: &Open<'_>) -> Option<String> {
        let id = self.text(head, "id")?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if !id.is_empty() && id.len() <= 64 && id.chars().all(allowed) {
            return Some(id);
        }
        let place = &head.table.get("id")?.place;
        let message = "expected 1 to 64 letters, digits, `-`, `_` or `.`";
        self.faults.push(place.fault("recipe.id", message));
        None
    }

    fn adapters(&mut self, node: &TomlNode, is_form: bool) -> Vec<RecipeAdapter> {
        let Item::List(nodes) = &node.item else {
            let message = format!("expected a list of tables, [[adapters]], found {}", node.item.describe());
            self.faults.push(node.place.fault("adapters", message));
            return Vec::new();
        };
        let adapters: Vec<RecipeAdapter> = nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| self.adapter(node, &format!("adapters[{index}]"), is_form))
            .collect();
        let mixed = adapters.iter().any(|one| one.kind == AdapterKind::XLora) && adapters.len() > 1;
        if mixed {
            let message = "X-LoRA mixes only the adapters it was trained with; no other adapter can be added";
            self.faults.push(node.place.fault("adapters", message));
        }
        adapters
    }

    fn adapter(&mut self, node: &TomlNode, path: &str, is_form: bool) -> Option<RecipeAdapter> {
        let table = self.open(node, path, &["kind", "from", "weight"])?;
        let kind = match self.need(&table, "kind", "`lora` or `xlora`") {
            Some(text) => self.kind(&table, &text),
            None => None,
        };
        let from =
            if is_form { self.text(&table, "from") } else { self.need(&table, "from", "a folder or a file") };
        let weight = self.weight(&table, kind);
        Some(RecipeAdapter { kind: kind?, from, weight: weight? })
    }

    fn kind(&mut self, table: &Open<'_>, text: &str) -> Option<AdapterKind> {
        let known = [AdapterKind::Lora, AdapterKind::XLora];
        let found = known.into_iter().find(|kind| kind.name() == text);
        if found.is_none() {
            let near = nearest_clause(nearest(text, known.map(AdapterKind::name)));
            let message = format!("unknown value{near}; allowed here: lora, xlora");
            let place = &table.table.get("kind")?.place;
            self.faults.push(place.fault(table.path_of("kind"), message));
        }
        found
    }

    fn weight(&mut self, table: &Open<'_>, kind: Option<AdapterKind>) -> Option<f64> {
        let Some(node) = table.table.get("weight") else { return Some(1.0) };
        let weight = match node.item {
            Item::Integer(value) => value as f64,
            Item::Real(value) => value,
            _ => f64::NAN,
        };
        let message = if !weight.is_finite() {
            format!("expected a number, found {}", node.item.describe())
        } else if kind == Some(AdapterKind::XLora) {
            "an X-LoRA has the weight of its own configuration (global_scaling_weight)".to_owned()
        } else {
            return Some(weight);
        };
        self.faults.push(node.place.fault(table.path_of("weight"), message));
        None
    }

    /// Keys with dots, quoted or as nested tables.
    fn set(&mut self, node: &TomlNode) -> BTreeMap<String, MetadataValue> {
        let mut values = BTreeMap::new();
        match node.table() {
            Some(table) => table.entries.iter().for_each(|entry| self.key(entry, "", &mut values)),
            None => {
                let message = format!("expected a table of keys, found {}", node.item.describe());
                self.faults.push(node.place.fault("set", message));
            }
        }
        values
    }

    fn key(&mut self, entry: &TomlEntry, above: &str, values: &mut BTreeMap<String, MetadataValue>) {
        let key = if above.is_empty() { entry.key.clone() } else { format!("{above}.{}", entry.key) };
        if let Some(table) = entry.node.table() {
            table.entries.iter().for_each(|inner| self.key(inner, &key, values));
            return;
        }
        match key_value(&entry.node) {
            Some(value) if !values.contains_key(&key) => {
                values.insert(key, value);
            }
            Some(_) => {
                let fault = entry.key_place.fault(format!("set.{key}"), "set twice");
                self.faults.push(fault);
            }
            None => {
                let message = "expected a list of numbers, booleans or strings; it holds a table";
                self.faults.push(entry.node.place.fault(format!("set.{key}"), message));
            }
        }
    }

    fn open<'a>(&mut self, node: &'a TomlNode, path: &'a str, allowed: &[&str]) -> Option<Open<'a>> {
        let Some(table) = node.table() else {
            let message =
                format!("expected a table with {}, found {}", allowed.join(", "), node.item.describe());
            self.faults.push(node.place.fault(path, message));
            return None;
        };
        let open = Open { table, place: &node.place, path };
        for entry in table.entries.iter().filter(|entry| !allowed.contains(&entry.key.as_str())) {
            let help = nearest_clause(nearest(&entry.key, allowed.iter().copied()));
            let message = format!("unknown key{help}; allowed here: {}", allowed.join(", "));
            self.faults.push(entry.key_place.fault(open.path_of(&entry.key), message));
        }
        Some(open)
    }

    /// An optional string.
    fn text(&mut self, table: &Open<'_>, key: &str) -> Option<String> {
        let node = table.table.get(key)?;
        match node.text() {
            Some(text) if !text.trim().is_empty() => Some(text.to_owned()),
            found => {
                let found = if found.is_some() { "an empty text".to_owned() } else { node.item.describe() };
                let message = format!("expected a string, found {found}");
                self.faults.push(node.place.fault(table.path_of(key), message));
                None
            }
        }
    }

    /// A required string.
    fn need(&mut self, table: &Open<'_>, key: &str, wanted: &str) -> Option<String> {
        match table.table.has(key) {
            true => self.text(table, key),
            false => self.missing(table, key, wanted),
        }
    }

    fn missing<T>(&mut self, table: &Open<'_>, key: &str, wanted: &str) -> Option<T> {
        self.faults.push(table.place.fault(table.path_of(key), format!("missing; expected {wanted}")));
        None
    }
}

fn key_value(node: &TomlNode) -> Option<MetadataValue> {
    Some(match &node.item {
        Item::Text(text) => MetadataValue::Text(text.clone()),
        Item::Integer(value) => MetadataValue::Integer(*value),
        Item::Real(value) => MetadataValue::Number(*value),
        Item::Bool(value) => MetadataValue::Bool(*value),
        Item::List(nodes) => MetadataValue::List(nodes.iter().map(key_value).collect::<Option<_>>()?),
        Item::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Recipe, String> {
        let source = SpecSource { name: "folder/mine.recipe.toml".to_owned(), text: text.to_owned() };
        Recipe::parse(&source).map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_whole_recipe_is_read() {
        let text = r#"
            schema = 1
            [recipe]
            base = "base.gguf"
            summary = "two adapters"
            [[adapters]]
            kind = "lora"
            from = "adapters/a"
            weight = 0.5
            [[adapters]]
            kind = "lora"
            from = "org/b"
            [set]
            "attention.sliding_window" = 4096
            rope.scaling.truncate = false
            layer_types = ["a", "b"]
            [chat]
            template = "chatml"
        "#;
        let recipe = parse(text).unwrap();
        assert_eq!((recipe.id.as_str(), recipe.summary.as_str()), ("mine", "two adapters"));
        assert_eq!(recipe.base, RecipeBase::Model("base.gguf".to_owned()));
        let adapter = |from: &str, weight| RecipeAdapter {
            kind: AdapterKind::Lora,
            from: Some(from.to_owned()),
            weight,
        };
        assert_eq!(recipe.adapters, [adapter("adapters/a", 0.5), adapter("org/b", 1.0)]);
        let texts =
            MetadataValue::List(vec![MetadataValue::Text("a".into()), MetadataValue::Text("b".into())]);
        let set = [
            ("attention.sliding_window", MetadataValue::Integer(4096)),
            ("rope.scaling.truncate", MetadataValue::Bool(false)),
            ("layer_types", texts),
        ];
        assert_eq!(recipe.set, set.map(|(key, value)| (key.to_owned(), value)).into());
        assert_eq!(recipe.chat_template.as_deref(), Some("chatml"));
    }

    #[test]
    fn a_form_needs_no_paths() {
        let recipe = parse(
            "schema = 1\n[recipe]\nid = \"Form\"\narchitecture = \"llama\"\n[[adapters]]\nkind = \"xlora\"\n",
        );
        let recipe = recipe.unwrap();
        assert_eq!(recipe.base, RecipeBase::Architecture("llama".to_owned()));
        assert_eq!(recipe.adapters[0].from, None);
    }

    #[test]
    fn all_faults_are_told_at_once_with_their_places() {
        let text = "schema = 2\n[recipe]\nid = \"a b\"\nbase = 3\nsumary = \"x\"\n[[adapters]]\nkind = \"loar\"\n\
                    weight = \"much\"\n[set]\na = [{ b = 1 }]\n\"c.d\" = 1\nc.d = 2\n[chat]\ntemplat = \"x\"\n";
        let faults = parse(text).unwrap_err();
        for said in [
            "mine.recipe.toml:1:10: schema\n  found the number 2; this program reads schema 1",
            ":3:7: recipe.id\n",
            ":4:8: recipe.base\n  expected a string, found the number 3",
            ":5:1: recipe.sumary\n  unknown key; the nearest is `summary`; allowed here: id, base, architecture, summary",
            "adapters[0].kind\n  unknown value; the nearest is `lora`; allowed here: lora, xlora",
            "adapters[0].from\n  missing; expected a folder or a file",
            "adapters[0].weight\n",
            "set.a\n",
            "set.c.d\n  set twice",
            "chat.templat\n  unknown key; the nearest is `template`",
        ] {
            assert!(faults.contains(said), "{said:?} is not in\n{faults}");
        }
        assert!(parse("schema = 1\n").unwrap_err().contains("recipe\n  missing"));
        assert!(parse("schema = 1\n[recipe]\n").unwrap_err().contains("recipe.base\n  missing"));
        assert!(parse("schema = ").unwrap_err().contains("not TOML"));
        let two = "schema = 1\n[recipe]\nbase = \"a\"\narchitecture = \"b\"\n";
        assert!(parse(two).unwrap_err().contains("keep one of the two"));
        let mixed = "schema = 1\n[recipe]\nbase = \"a\"\nadapters = []\n";
        assert!(parse(mixed).unwrap_err().contains("recipe.adapters\n  unknown key"));
        let mixed = "schema = 1\nadapters = [{ kind = \"xlora\", from = \"x\" }, { kind = \"lora\", from = \"y\" }]\n\
                     [recipe]\nbase = \"a\"\n";
        assert!(parse(mixed).unwrap_err().contains("no other adapter can be added"));
    }
}
