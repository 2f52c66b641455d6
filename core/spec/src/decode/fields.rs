//! Reading one table: which fields it has, which it may have, and what each value must be.

use crate::expression::{Expression, Scope};
use crate::fault::{Fault, SpecFaults};
use crate::names::NameSet;
use crate::nearest::nearest_help;
use crate::roles::{ROLES, bare};
use crate::shapes::Shape;
use crate::tree::{Item, Node, Place, Table};
use crate::written::{BySource, Choice, Condition, Field, Name, Number, Scalar, Truth};
use std::collections::BTreeSet;

/// Collects what the whole decoding of a spec needs and finds.
pub(crate) struct Decoder {
    /// Everything wrong so far.
    pub(crate) faults: SpecFaults,
    /// Roles that the spec itself introduces.
    pub(crate) own_roles: BTreeSet<String>,
    /// Every expression over canonical keys, with its place and path.
    pub(crate) expressions: Vec<(Place, String, Expression)>,
}

/// A value in the tree and its dotted path.
#[derive(Clone)]
pub(crate) struct At<'a> {
    pub(crate) node: &'a Node,
    pub(crate) path: String,
}

impl<'a> At<'a> {
    /// A fault at this value.
    pub(crate) fn fault(&self, message: impl Into<String>) -> Fault {
        self.node.place.fault(self.path.clone(), message)
    }

    fn field<T>(&self, value: T) -> Field<T> {
        Field { place: self.node.place.clone(), path: self.path.clone(), value }
    }
}

/// An opened table.
pub(crate) struct Fields<'a> {
    pub(crate) at: At<'a>,
    pub(crate) table: &'a Table,
    shape: &'static Shape,
}

/// Dotted path of a key under another; keys with dots are quoted.
pub(crate) fn join(path: &str, key: &str) -> String {
    let key = if key.contains(['.', ' ']) { format!("\"{key}\"") } else { key.to_string() };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

impl<'a> Fields<'a> {
    /// The value of a field.
    pub(crate) fn get(&self, key: &'static str) -> Option<At<'a>> {
        debug_assert!(self.shape.fields.contains(&key), "{} has no field {key}", self.shape.name);
        let node = self.table.get(key)?;
        Some(At { node, path: join(&self.at.path, key) })
    }

    /// The value of a field that must be there.
    pub(crate) fn need(&self, decoder: &mut Decoder, key: &'static str) -> Option<At<'a>> {
        let found = self.get(key);
        if found.is_none() {
            let path = join(&self.at.path, key);
            decoder.faults.push(self.at.node.place.fault(path, "missing"));
        }
        found
    }
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Decoder { faults: SpecFaults::default(), own_roles: BTreeSet::new(), expressions: Vec::new() }
    }

    /// Reports and forgets.
    pub(crate) fn reject<T>(&mut self, at: &At<'_>, message: impl Into<String>) -> Option<T> {
        self.faults.push(at.fault(message));
        None
    }

    /// Opens a table and reports fields that its shape does not have.
    pub(crate) fn open<'a>(&mut self, at: At<'a>, shape: &'static Shape) -> Option<Fields<'a>> {
        let Some(table) = at.node.table() else {
            let message = format!(
                "found {}; a table is wanted, with {}",
                at.node.item.describe(),
                shape.fields.join(", ")
            );
            return self.reject(&at, message);
        };
        for entry in &table.entries {
            if !shape.fields.contains(&entry.key.as_str()) {
                let help = nearest_help(&entry.key, shape.fields.iter().copied());
                let allowed =
                    if shape.fields.is_empty() { "nothing".into() } else { shape.fields.join(", ") };
                let message = format!("unknown{help}; allowed here: {allowed}");
                self.faults.push(entry.key_place.fault(join(&at.path, &entry.key), message));
            }
        }
        Some(Fields { at, table, shape })
    }

    /// An expression over canonical keys.
    pub(crate) fn expression(&mut self, at: &At<'_>, text: &str) -> Option<Expression> {
        match Expression::parse(text, Scope::Keys) {
            Ok(expression) => {
                for role in &expression.roles {
                    self.known_role(&at.node.place, &at.path, role);
                }
                self.expressions.push((at.node.place.clone(), at.path.clone(), expression.clone()));
                Some(expression)
            }
            Err(message) => self.reject(at, message),
        }
    }

    /// A number place: a literal or an expression, perhaps per source.
    pub(crate) fn number(&mut self, at: At<'_>) -> Option<Number> {
        let value = match per_source(&at) {
            Some((gguf, hf)) => BySource::Each { gguf: self.scalar(&gguf)?, hf: self.scalar(&hf)? },
            None => BySource::Same(self.scalar(&at)?),
        };
        Some(at.field(value))
    }

    /// A literal number or an expression.
    pub(crate) fn scalar(&mut self, at: &At<'_>) -> Option<Scalar> {
        match &at.node.item {
            Item::Integer(value) => Some(Scalar::Literal(*value as f64)),
            Item::Real(value) if value.is_finite() => Some(Scalar::Literal(*value)),
            Item::Text(text) => self.expression(at, text).map(Scalar::Expression),
            other => {
                let message =
                    format!("found {}; a number or an expression in quotes is wanted", other.describe());
                self.reject(at, message)
            }
        }
    }

    /// A truth place.
    pub(crate) fn truth(&mut self, at: At<'_>) -> Option<Truth> {
        let value = match &at.node.item {
            Item::Truth(value) => Condition::Literal(*value),
            Item::Text(text) => Condition::Expression(self.expression(&at, text)?),
            other => {
                let message =
                    format!("found {}; true, false or an expression in quotes is wanted", other.describe());
                return self.reject(&at, message);
            }
        };
        Some(at.field(value))
    }

    /// A name place: a name, a name per source, or a choice.
    pub(crate) fn name<T: NameSet>(&mut self, at: At<'_>) -> Option<Name<T>> {
        let value = if let Some((gguf, hf)) = per_source(&at) {
            Choice::Given(BySource::Each { gguf: self.plain_name(&gguf)?, hf: self.plain_name(&hf)? })
        } else if at.node.table().is_some_and(|table| table.has("by")) {
            self.choice(&at)?
        } else {
            Choice::Given(BySource::Same(self.plain_name(&at)?))
        };
        Some(at.field(value))
    }

    /// A name from a closed list.
    pub(crate) fn plain_name<T: NameSet>(&mut self, at: &At<'_>) -> Option<(&'static str, T)> {
        let allowed = || T::names().collect::<Vec<_>>().join(", ");
        let Some(text) = at.node.text() else {
            return self
                .reject(at, format!("found {}; one of {} is wanted", at.node.item.describe(), allowed()));
        };
        let found = T::NAMES.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let help = nearest_help(text, T::names());
            self.faults.push(at.fault(format!("there is no `{text}` here{help}; allowed: {}", allowed())));
        }
        found.copied()
    }

    fn choice<T: NameSet>(&mut self, at: &At<'_>) -> Option<Choice<T>> {
        let table = at.node.table()?;
        let mut answers = Vec::new();
        let mut by = None;
        let mut good = true;
        for entry in &table.entries {
            let at = At { node: &entry.node, path: join(&at.path, &entry.key) };
            if entry.key == "by" {
                by = match at.node.text() {
                    Some(text) => self.expression(&at, text),
                    None => self.reject(&at, "an expression in quotes is wanted"),
                };
            } else {
                match self.plain_name(&at) {
                    Some((name, value)) => answers.push((entry.key.clone(), name, value)),
                    None => good = false,
                }
            }
        }
        if answers.is_empty() && good {
            return self.reject(at, "a choice without answers: add e.g. `1 = \"softmax\"`");
        }
        if good { Some(Choice::By { by: by?, answers }) } else { None }
    }

    /// A string.
    pub(crate) fn text(&mut self, at: At<'_>) -> Option<String> {
        match at.node.text() {
            Some(text) => Some(text.to_string()),
            None => self.reject(&at, format!("found {}; a string is wanted", at.node.item.describe())),
        }
    }

    /// A list of strings.
    pub(crate) fn texts(&mut self, at: At<'_>) -> Vec<String> {
        let Item::List(nodes) = &at.node.item else {
            self.faults
                .push(at.fault(format!("found {}; a list of strings is wanted", at.node.item.describe())));
            return Vec::new();
        };
        nodes.iter().filter_map(|node| self.text(At { node, path: at.path.clone() })).collect()
    }

    /// A table of strings, in order.
    pub(crate) fn text_table(&mut self, at: At<'_>) -> Vec<(String, String)> {
        let Some(table) = at.node.table() else {
            self.faults
                .push(at.fault(format!("found {}; a table of strings is wanted", at.node.item.describe())));
            return Vec::new();
        };
        let mut found = Vec::new();
        for entry in &table.entries {
            if let Some(text) = self.text(At { node: &entry.node, path: join(&at.path, &entry.key) }) {
                found.push((entry.key.clone(), text));
            }
        }
        found
    }

    /// A role.
    pub(crate) fn role(&mut self, at: At<'_>) -> Option<String> {
        let role = self.text(at.clone())?;
        self.known_role(&at.node.place, &at.path, &role);
        Some(role)
    }

    /// Reports a role that neither the language nor this spec knows.
    pub(crate) fn known_role(&mut self, place: &Place, path: &str, role: &str) {
        let name = bare(role);
        if ROLES.contains(&name) || self.own_roles.contains(name) {
            return;
        }
        let help = nearest_help(name, ROLES.into_iter().chain(self.own_roles.iter().map(String::as_str)));
        self.faults.push(place.fault(path, format!("there is no role `{role}`{help}")));
    }
}

/// The two values of `{ gguf = .., hf = .. }`.
fn per_source<'a>(at: &At<'a>) -> Option<(At<'a>, At<'a>)> {
    let table = at.node.table()?;
    if table.entries.len() != 2 {
        return None;
    }
    let gguf = At { node: table.get("gguf")?, path: join(&at.path, "gguf") };
    let hf = At { node: table.get("hf")?, path: join(&at.path, "hf") };
    Some((gguf, hf))
}
