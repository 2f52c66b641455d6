//! The values that a spec states, and the options that it leaves out: for drafts, comparisons and explanations.

use crate::kind::{Family, Field, FieldType, Kinds, Table};
use crate::language::sections::{SITE, SPEC};
use crate::language::spec::ArchSpec;
use crate::out::described::{default_text, value_text};
use crate::out::schema::plain;
use crate::text::toml_text::value;
use crate::text::tree::{Item, TomlEntry, TomlNode};
use serde_json::Value;

/// A value that a spec or one of its bases states.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct SpecValue {
    /// Dotted path.
    pub path: String,
    /// The value, as TOML.
    pub value: String,
    /// The file that states it.
    pub file: String,
    /// The line there, from 1.
    pub line: usize,
}

/// An option of a table that a spec uses, stated or not.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct StatedOption {
    /// Dotted path.
    pub path: String,
    /// The value as TOML, if stated; for a table its kind, or nothing.
    pub value: Option<String>,
    /// The type of its value, in words.
    pub accepts: String,
    /// Its default; empty for none.
    pub default: String,
    /// What it means.
    pub meaning: String,
    /// Whether an error in it would show only in the logits.
    pub guarded: bool,
    /// Whether it is a table of options, a component or a norm.
    pub is_table: bool,
}

impl StatedOption {
    /// The value, if stated; a string without its quotes.
    pub fn plain(&self) -> Option<String> {
        let value = self.value.as_deref()?;
        let inner = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        Some(inner.filter(|inner| !inner.contains('\\')).unwrap_or(value).to_owned())
    }
}

impl ArchSpec {
    /// Every stated value, in the order of the spec merged with its bases.
    pub fn stated(&self) -> Vec<SpecValue> {
        let mut found = Vec::new();
        leaves(&self.document, "", &mut found);
        found
    }

    /// The options of every section and component, including unstated ones; reasons and the Hugging Face sections are
    /// left out.
    pub fn options(&self) -> Vec<StatedOption> {
        let mut walk = OptionWalk { kinds: &self.kinds, found: Vec::new() };
        const LEFT_OUT: [&str; 10] = [
            "schema",
            "extends",
            "unset",
            "architecture",
            "provenance",
            "let",
            "check",
            "gguf",
            "hf",
            "adapter",
        ];
        for field in SPEC.fields.iter().filter(|field| !LEFT_OUT.contains(&field.name)) {
            let node = self.document.table().and_then(|table| table.get(field.name));
            walk.field(field, node, "");
        }
        walk.found
    }

    /// The whole spec merged with its bases, as JSON: tables as objects, in order.
    pub fn document(&self) -> Value {
        json(&self.document)
    }
}

/// A TOML value as JSON; non-finite numbers become null.
fn json(node: &TomlNode) -> Value {
    match &node.item {
        Item::Text(text) => text.as_str().into(),
        Item::Integer(number) => (*number).into(),
        Item::Real(number) => (*number).into(),
        Item::Bool(value) => (*value).into(),
        Item::List(nodes) => nodes.iter().map(json).collect(),
        Item::Table(table) => {
            table.entries.iter().map(|entry| (entry.key.clone(), json(&entry.node))).collect()
        }
    }
}

fn leaves(node: &TomlNode, path: &str, found: &mut Vec<SpecValue>) {
    match node.table().filter(|table| !table.entries.is_empty()) {
        Some(table) => {
            for TomlEntry { key, node, .. } in &table.entries {
                leaves(node, &below(path, key), found);
            }
        }
        None => found.push(SpecValue {
            path: path.to_owned(),
            value: value(node),
            file: node.place.file().to_owned(),
            line: node.place.position().0,
        }),
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Walks the document and the tables of the language together.
struct OptionWalk<'k> {
    kinds: &'k Kinds,
    found: Vec<StatedOption>,
}

impl OptionWalk<'_> {
    fn field(&mut self, field: &'static Field, node: Option<&TomlNode>, path: &str) {
        let path = below(path, field.name);
        let is_table = matches!(
            field.ty,
            FieldType::Table(_)
                | FieldType::Optional(_)
                | FieldType::OneOrEach(_)
                | FieldType::Component(_)
                | FieldType::NormSite
        );
        let stated = node.map(|node| match node.table() {
            Some(table) if is_table => table.get("kind").map(value).unwrap_or_default(),
            _ => value(node),
        });
        self.found.push(StatedOption {
            path: path.clone(),
            value: stated,
            accepts: value_text(&field.ty),
            default: default_text(field),
            meaning: plain(field.doc),
            guarded: field.guarded,
            is_table,
        });
        let Some(node) = node else { return };
        match &field.ty {
            FieldType::Table(table) | FieldType::OneOrEach(table) => self.table(table, node, &path),
            FieldType::Optional(table) => self.cases(node, &path, &mut |walk, node, path| {
                walk.when(node, path);
                walk.table(table, node, path);
            }),
            FieldType::Component(family) => self.component(*family, node, &path),
            FieldType::NormSite if node.table().is_some() => self.table(&SITE, node, &path),
            _ => {}
        }
    }

    fn table(&mut self, table: &'static Table, node: &TomlNode, path: &str) {
        let Some(written) = node.table() else { return };
        for field in table.fields.iter().filter(|field| !matches!(field.ty, FieldType::NormHere)) {
            self.field(field, written.get(field.name), path);
        }
    }

    fn component(&mut self, family: Family, node: &TomlNode, path: &str) {
        let kinds = self.kinds;
        self.cases(node, path, &mut |walk, node, path| {
            let named = node.table().and_then(|table| table.get("kind")).and_then(TomlNode::text);
            let Some(kind) = named.and_then(|name| kinds.find(family, name)) else { return };
            if family != Family::Norm {
                walk.when(node, path);
            }
            walk.table(kind.options, node, path);
        });
    }

    /// A table, or each of its named cases.
    fn cases(&mut self, node: &TomlNode, path: &str, each: &mut dyn FnMut(&mut Self, &TomlNode, &str)) {
        let Some(table) = node.table() else { return };
        let named = !table.has("kind") && table.entries.iter().all(|entry| entry.node.table().is_some());
        if !named || table.entries.is_empty() {
            return each(self, node, path);
        }
        for entry in &table.entries {
            each(self, &entry.node, &below(path, &entry.key));
        }
    }

    /// The condition of a case or an optional table, if it is stated.
    fn when(&mut self, node: &TomlNode, path: &str) {
        let Some(condition) = node.table().and_then(|table| table.get("when")) else { return };
        self.found.push(StatedOption {
            path: below(path, "when"),
            value: Some(value(condition)),
            accepts: "boolean".to_owned(),
            default: String::new(),
            meaning: "The layers that have it.".to_owned(),
            guarded: true,
            is_table: false,
        });
    }
}
