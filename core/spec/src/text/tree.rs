//! A TOML document as a tree in which every key and value has its file and offset.

use crate::text::fault::Fault;
use crate::text::literal::Literal;
use crate::text::source::SpecSource;
use std::fmt;
use std::sync::Arc;
use toml_span::value::ValueInner;

/// The text of one spec file.
#[derive(PartialEq, Eq)]
pub(crate) struct SourceText {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A place in a source.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SourcePlace {
    source: Arc<SourceText>,
    offset: usize,
}

impl SourcePlace {
    /// Line and column, both from 1; columns count characters.
    pub(crate) fn position(&self) -> (usize, usize) {
        let mut end = self.offset.min(self.source.text.len());
        while !self.source.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.source.text[..end];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (line, column)
    }

    /// Name of the file.
    pub(crate) fn file(&self) -> &str {
        &self.source.name
    }

    /// A fault here.
    pub(crate) fn fault(&self, subject: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault {
            file: self.source.name.clone(),
            position: Some(self.position()),
            subject: subject.into(),
            message: message.into(),
            layers: Default::default(),
        }
    }
}

impl fmt::Debug for SourcePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position();
        write!(f, "{}:{line}:{column}", self.source.name)
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct TomlNode {
    pub(crate) place: SourcePlace,
    pub(crate) item: Item,
}

/// A TOML value.
#[derive(Clone, Debug)]
pub(crate) enum Item {
    Text(String),
    Integer(i64),
    Real(f64),
    Bool(bool),
    List(Vec<TomlNode>),
    Table(TomlTable),
}

impl Item {
    /// The type of the value, for messages.
    pub(crate) fn describe(&self) -> String {
        match self {
            Item::Text(text) => format!("the string \"{text}\""),
            Item::Integer(value) => format!("the number {value}"),
            Item::Real(value) => format!("the number {value}"),
            Item::Bool(value) => format!("{value}"),
            Item::List(_) => "a list".into(),
            Item::Table(_) => "a table".into(),
        }
    }
}

impl TomlNode {
    /// The table, if it is one.
    pub(crate) fn table(&self) -> Option<&TomlTable> {
        match &self.item {
            Item::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The string, if it is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.item {
            Item::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether two values are equal, whatever their places.
    pub(crate) fn same(&self, other: &TomlNode) -> bool {
        match (&self.item, &other.item) {
            (Item::Text(a), Item::Text(b)) => a == b,
            (Item::Integer(a), Item::Integer(b)) => a == b,
            (Item::Real(a), Item::Real(b)) => a == b,
            (Item::Bool(a), Item::Bool(b)) => a == b,
            (Item::List(a), Item::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Item::Table(a), Item::Table(b)) => {
                a.entries.len() == b.entries.len()
                    && a.entries
                        .iter()
                        .all(|entry| b.get(&entry.key).is_some_and(|node| node.same(&entry.node)))
            }
            _ => false,
        }
    }

    /// The value as a literal; `None` for tables.
    pub(crate) fn literal(&self) -> Option<Literal> {
        Some(match &self.item {
            Item::Text(text) => Literal::Text(text.clone()),
            Item::Integer(value) => Literal::Integer(*value),
            Item::Real(value) => Literal::Number(*value),
            Item::Bool(value) => Literal::Bool(*value),
            Item::List(nodes) => Literal::List(nodes.iter().map(TomlNode::literal).collect::<Option<_>>()?),
            Item::Table(_) => return None,
        })
    }
}

/// A TOML table in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct TomlTable {
    pub(crate) entries: Vec<TomlEntry>,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(crate) struct TomlEntry {
    pub(crate) key: String,
    pub(crate) key_place: SourcePlace,
    pub(crate) node: TomlNode,
}

impl TomlTable {
    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&TomlNode> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// A key with its place.
    pub(crate) fn entry(&self, key: &str) -> Option<&TomlEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// A key with its place, mutable.
    pub(crate) fn entry_mut(&mut self, key: &str) -> Option<&mut TomlEntry> {
        self.entries.iter_mut().find(|entry| entry.key == key)
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: &str) -> Option<TomlEntry> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.remove(index))
    }

    /// Whether it has a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }
}

/// Maximum size of a spec in bytes; the largest known one has 7,000.
const MOST_BYTES: usize = 1 << 18;

/// Reads a TOML document into a table, with the place of the document itself.
pub(crate) fn read(source: &SpecSource) -> Result<TomlNode, Fault> {
    if source.text.len() > MOST_BYTES {
        let text = Arc::new(SourceText { name: source.name.clone(), text: String::new() });
        let message = format!("{} bytes; a spec has at most {MOST_BYTES}", source.text.len());
        return Err(SourcePlace { source: text, offset: 0 }.fault("", message));
    }
    let text = Arc::new(SourceText { name: source.name.clone(), text: source.text.clone() });
    let start = SourcePlace { source: Arc::clone(&text), offset: 0 };
    match toml_span::parse(&source.text) {
        Ok(mut value) => Ok(node(&text, &mut value)),
        Err(error) => {
            let place = SourcePlace { source: Arc::clone(&text), offset: error.span.start };
            let hint = match &error.kind {
                toml_span::ErrorKind::DuplicateKey { first, .. } => {
                    let (line, _) = SourcePlace { offset: first.start, ..start }.position();
                    format!("; it was first set in line {line}")
                }
                _ => String::new(),
            };
            Err(place.fault("", format!("not TOML 1.0: {error}{hint}")))
        }
    }
}

fn node(text: &Arc<SourceText>, value: &mut toml_span::Value<'_>) -> TomlNode {
    let place = SourcePlace { source: Arc::clone(text), offset: value.span.start };
    let item = match value.take() {
        ValueInner::String(value) => Item::Text(value.into_owned()),
        ValueInner::Integer(value) => Item::Integer(value),
        ValueInner::Float(value) => Item::Real(value),
        ValueInner::Boolean(value) => Item::Bool(value),
        ValueInner::Array(values) => {
            Item::List(values.into_iter().map(|mut value| node(text, &mut value)).collect())
        }
        ValueInner::Table(values) => {
            let mut entries: Vec<TomlEntry> = values
                .into_iter()
                .map(|(key, mut value)| TomlEntry {
                    key: key.name.into_owned(),
                    key_place: SourcePlace { source: Arc::clone(text), offset: key.span.start },
                    node: node(text, &mut value),
                })
                .collect();
            entries.sort_by_key(|entry| entry.key_place.offset);
            Item::Table(TomlTable { entries })
        }
    };
    TomlNode { place, item }
}
