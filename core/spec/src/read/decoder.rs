//! Decoding values of the tree: checks their types and collects all faults.

use crate::expression::{Expression, NameScope};
use crate::expression::{as_bool, as_count, as_number};
use crate::kind::written::{BySource, Condition, NameChoice, Scalar, When, WrittenTable, WrittenValue};
use crate::kind::{Kinds, NameList, Table as Definition};
use crate::language::roles::{ROLES, bare};
use crate::text::fault::SpecFaults;
use crate::text::tree::{Item, SourcePlace, TomlNode, TomlTable};
use menagerie_entries::{nearest, nearest_clause};
use minijinja::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of reported faults of a spec; an unrelated file can have one per line.
const TOLD: usize = 100;

/// Renamed tables of specs: old name, new name.
const RENAMED: [(&str, &str); 1] = [("truth", "provenance")];

/// The common norm, as far as it is known when sites are decoded.
#[derive(Clone, Debug)]
pub(crate) enum CommonNorm {
    /// There is no `[norm]`.
    Missing,
    /// It has its own faults.
    Broken,
    /// Its kind and options.
    Known(Arc<WrittenTable>),
}

/// The state of decoding a spec.
pub(crate) struct Decoder<'k> {
    /// All faults so far.
    pub(crate) faults: SpecFaults,
    /// The number of faults that are not reported.
    pub(crate) untold: usize,
    /// Kinds that a spec may name.
    pub(crate) kinds: &'k Kinds,
    /// Roles that the spec introduces, and those of the kinds.
    pub(crate) own_roles: BTreeSet<String>,
    /// Every expression over canonical keys.
    pub(crate) expressions: Vec<Arc<Expression>>,
    /// `[norm]`.
    pub(crate) norm: CommonNorm,
}

/// A value in the tree and its dotted path.
#[derive(Clone)]
pub(crate) struct TreePoint<'a> {
    pub(crate) node: &'a TomlNode,
    pub(crate) path: String,
}

impl<'a> TreePoint<'a> {
    /// A value under this one.
    pub(crate) fn inner(&self, node: &'a TomlNode, key: &str) -> TreePoint<'a> {
        TreePoint { node, path: join(&self.path, key) }
    }
}

/// An opened table.
pub(crate) struct TableReader<'a> {
    pub(crate) at: TreePoint<'a>,
    pub(crate) table: &'a TomlTable,
    definition: &'static Definition,
}

/// Dotted path of a key under another; keys with dots are quoted.
pub(crate) fn join(path: &str, key: &str) -> String {
    let key = if key.contains(['.', ' ']) { format!("\"{key}\"") } else { key.to_string() };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

impl<'a> TableReader<'a> {
    /// The value of a field.
    pub(crate) fn get(&self, key: &'static str) -> Option<TreePoint<'a>> {
        debug_assert!(self.definition.fields.iter().any(|field| field.name == key), "{key} is in no table");
        Some(self.at.inner(self.table.get(key)?, key))
    }

    /// The value of a required field.
    pub(crate) fn need(&self, decoder: &mut Decoder<'_>, key: &'static str) -> Option<TreePoint<'a>> {
        let found = self.get(key);
        if found.is_none() {
            decoder.fault(&self.at.node.place, &join(&self.at.path, key), || "missing".into());
        }
        found
    }
}

impl<'k> Decoder<'k> {
    pub(crate) fn new(kinds: &'k Kinds) -> Self {
        Decoder {
            faults: SpecFaults::default(),
            untold: 0,
            kinds,
            own_roles: BTreeSet::new(),
            expressions: Vec::new(),
            norm: CommonNorm::Missing,
        }
    }

    /// Records a fault; after the first hundred, only their number.
    pub(crate) fn fault(&mut self, place: &SourcePlace, path: &str, message: impl FnOnce() -> String) {
        if self.faults.faults().len() < TOLD {
            self.faults.push(place.fault(path, message()));
        } else {
            self.untold += 1;
        }
    }

    /// Records a fault of a value.
    pub(crate) fn reject<T>(&mut self, at: &TreePoint<'_>, message: impl Into<String>) -> Option<T> {
        let message = message.into();
        self.fault(&at.node.place, &at.path, || message);
        None
    }

    /// Records that a value has an unexpected type.
    pub(crate) fn wanted<T>(&mut self, at: &TreePoint<'_>, wanted: &str) -> Option<T> {
        let found = at.node.item.describe();
        self.fault(&at.node.place, &at.path, || format!("expected {wanted}, found {found}"));
        None
    }

    /// The table; a fault if the value is not a table or has unknown keys.
    pub(crate) fn open_with<'a>(
        &mut self,
        at: &TreePoint<'a>,
        allowed: &[&'static str],
    ) -> Option<&'a TomlTable> {
        let Some(table) = at.node.table() else {
            return self.wanted(at, &format!("a table with {}", allowed.join(", ")));
        };
        for entry in &table.entries {
            if allowed.contains(&entry.key.as_str()) {
                continue;
            }
            self.fault(&entry.key_place, &join(&at.path, &entry.key), || {
                let renamed = RENAMED.iter().find(|(old, _)| at.path.is_empty() && *old == entry.key);
                if let Some((old, new)) = renamed {
                    return format!("`[{old}]` is called `[{new}]` now; rename the table");
                }
                let help = nearest_clause(nearest(&entry.key, allowed.iter().copied()));
                let list = if allowed.is_empty() { "nothing".into() } else { allowed.join(", ") };
                format!("unknown key{help}; allowed here: {list}")
            });
        }
        Some(table)
    }

    /// Opens a table without components.
    pub(crate) fn open<'a>(
        &mut self,
        at: TreePoint<'a>,
        definition: &'static Definition,
    ) -> Option<TableReader<'a>> {
        let allowed: Vec<&str> = definition.fields.iter().map(|field| field.name).collect();
        let table = self.open_with(&at, &allowed)?;
        Some(TableReader { at, table, definition })
    }

    /// An expression over canonical keys.
    pub(crate) fn expression(&mut self, at: &TreePoint<'_>, text: &str) -> Option<Arc<Expression>> {
        match Expression::parse(text, NameScope::Keys) {
            Ok(expression) => {
                for role in &expression.roles {
                    self.known_role(&at.node.place, &at.path, role);
                }
                let expression = Arc::new(expression);
                self.expressions.push(Arc::clone(&expression));
                Some(expression)
            }
            Err(message) => self.reject(at, message),
        }
    }

    /// Refuses a constant expression with an unsuitable value.
    fn constant<T>(
        &mut self,
        at: &TreePoint<'_>,
        expression: &Expression,
        wanted: fn(&Value, &Expression) -> Result<T, String>,
    ) -> Option<()> {
        let Some(value) = expression.constant() else { return Some(()) };
        match value.and_then(|value| wanted(&value, expression)) {
            Ok(_) => Some(()),
            Err(message) => self.reject(at, message),
        }
    }

    /// A count: a number; a value that does not depend on a file must be an integer.
    pub(crate) fn count(&mut self, at: &TreePoint<'_>) -> Option<BySource<Scalar>> {
        let number = self.number(at)?;
        let sides = match &number {
            BySource::Same(value) => vec![value],
            BySource::Each { gguf, hf } => vec![gguf, hf],
        };
        for side in sides {
            let value = match side {
                Scalar::Literal(value) => Some(*value),
                Scalar::Expression(expression) => {
                    let value = expression.constant().and_then(Result::ok);
                    value.and_then(|value| as_number(&value, expression).ok())
                }
            };
            if let Some(value) = value.filter(|value| as_count(*value).is_none()) {
                return self.reject(at, format!("{value} is not a count"));
            }
        }
        Some(number)
    }

    /// A number: a literal or an expression, possibly per source.
    pub(crate) fn number(&mut self, at: &TreePoint<'_>) -> Option<BySource<Scalar>> {
        match per_source(at) {
            Some((gguf, hf)) => Some(BySource::Each { gguf: self.scalar(&gguf)?, hf: self.scalar(&hf)? }),
            None => {
                self.both_sides(at)?;
                self.scalar(at).map(BySource::Same)
            }
        }
    }

    /// Refuses `{ gguf = .. }` without `hf`, and the reverse.
    fn both_sides(&mut self, at: &TreePoint<'_>) -> Option<()> {
        let Some(TomlTable { entries }) = at.node.table() else { return Some(()) };
        match entries.as_slice() {
            [only] if matches!(only.key.as_str(), "gguf" | "hf") => {
                let message = format!(
                    "only `{}` is set; write both, {{ gguf = .., hf = .. }}, or one value for both",
                    only.key
                );
                self.reject(at, message)
            }
            _ => Some(()),
        }
    }

    /// A literal number, or an expression for one.
    pub(crate) fn scalar(&mut self, at: &TreePoint<'_>) -> Option<Scalar> {
        let scalar = self.named_value(at)?;
        if let Scalar::Expression(expression) = &scalar {
            self.constant(at, expression, as_number)?;
        }
        Some(scalar)
    }

    /// A literal number, or any expression.
    pub(crate) fn named_value(&mut self, at: &TreePoint<'_>) -> Option<Scalar> {
        match &at.node.item {
            Item::Integer(value) => Some(Scalar::Literal(*value as f64)),
            Item::Real(value) if value.is_finite() => Some(Scalar::Literal(*value)),
            Item::Text(text) => {
                let expression = self.expression(at, text)?;
                self.constant(at, &expression, |_, _| Ok(()))?;
                Some(Scalar::Expression(expression))
            }
            _ => self.wanted(at, "a number or an expression in quotes"),
        }
    }

    /// A boolean or an expression.
    pub(crate) fn condition(&mut self, at: &TreePoint<'_>) -> Option<Condition> {
        match &at.node.item {
            Item::Bool(value) => Some(Condition::Literal(*value)),
            Item::Text(text) => {
                let expression = self.expression(at, text)?;
                self.constant(at, &expression, as_bool)?;
                Some(Condition::Expression(expression))
            }
            _ => self.wanted(at, "true, false or an expression in quotes"),
        }
    }

    /// A `when`.
    pub(crate) fn when(&mut self, at: &TreePoint<'_>) -> Option<When> {
        let value = self.condition(at)?;
        Some(When { place: at.node.place.clone(), path: at.path.clone(), value })
    }

    /// A name field: a name, a name per source, or a choice.
    pub(crate) fn name(&mut self, at: &TreePoint<'_>, list: &'static NameList) -> Option<NameChoice> {
        if let Some((gguf, hf)) = per_source(at) {
            let (gguf, hf) = (self.plain_name(&gguf, list), self.plain_name(&hf, list));
            return Some(NameChoice::Given(BySource::Each { gguf: gguf?, hf: hf? }));
        }
        self.both_sides(at)?;
        match at.node.table() {
            Some(table) if table.has("by") => self.choice(at, list),
            _ => self.plain_name(at, list).map(BySource::Same).map(NameChoice::Given),
        }
    }

    /// A name from a closed list, without alternatives.
    pub(crate) fn plain_name(&mut self, at: &TreePoint<'_>, list: &'static NameList) -> Option<usize> {
        let index = self.any_name(at, list)?;
        let Some(numbers) = list.names[index].numbers else { return Some(index) };
        let names: Vec<String> = numbers.fields.iter().map(|field| format!("{} = ..", field.name)).collect();
        let (name, numbers) = (list.names[index].name, names.join(", "));
        self.reject(at, format!("`{name}` takes numbers; write {{ kind = \"{name}\", {numbers} }}"))
    }

    /// A name from a closed list.
    fn any_name(&mut self, at: &TreePoint<'_>, list: &'static NameList) -> Option<usize> {
        let allowed = || list.all().collect::<Vec<_>>().join(", ");
        let Some(text) = at.node.text() else {
            return self.wanted(at, &format!("one of {}", allowed()));
        };
        if let Some(index) = list.names.iter().position(|def| def.name == text) {
            return Some(index);
        }
        let help = nearest_clause(nearest(text, list.all()));
        self.reject(at, format!("unknown name `{text}`{help}; allowed: {}", allowed()))
    }

    /// `{ kind = "name", .. }`: a name with numbers.
    pub(super) fn name_with_numbers(
        &mut self,
        at: &TreePoint<'_>,
        list: &'static NameList,
    ) -> Option<WrittenValue> {
        let table = at.node.table()?;
        let index = self.any_name(&at.inner(table.get("kind")?, "kind"), list)?;
        match list.names[index].numbers {
            Some(numbers) => Some(WrittenValue::NumberedName(index, self.table(at, numbers, &["kind"])?)),
            None if table.entries.len() > 1 => {
                let name = list.names[index].name;
                self.reject(at, format!("`{name}` takes no numbers; write \"{name}\""))
            }
            None => Some(WrittenValue::Name(NameChoice::Given(BySource::Same(index)))),
        }
    }

    fn choice(&mut self, at: &TreePoint<'_>, list: &'static NameList) -> Option<NameChoice> {
        let table = at.node.table()?;
        let mut answers = Vec::new();
        let mut by = None;
        let mut good = true;
        for entry in &table.entries {
            let at = at.inner(&entry.node, &entry.key);
            if entry.key == "by" {
                by = match at.node.text() {
                    Some(text) => self.expression(&at, text),
                    None => self.reject(&at, "expected an expression in quotes"),
                };
            } else {
                match self.plain_name(&at, list) {
                    Some(name) => answers.push((entry.key.clone(), name)),
                    None => good = false,
                }
            }
        }
        if answers.is_empty() && good {
            return self.reject(at, "a choice without answers; add for example `1 = \"softmax\"`");
        }
        if good { Some(NameChoice::By { by: by?, answers }) } else { None }
    }

    /// A string.
    pub(crate) fn text(&mut self, at: TreePoint<'_>) -> Option<String> {
        match at.node.text() {
            Some(text) => Some(text.to_string()),
            None => self.wanted(&at, "a string"),
        }
    }

    /// A list of strings.
    pub(crate) fn texts(&mut self, at: TreePoint<'_>) -> Vec<String> {
        let Item::List(nodes) = &at.node.item else {
            return self.wanted(&at, "a list of strings").unwrap_or_default();
        };
        nodes.iter().filter_map(|node| self.text(TreePoint { node, path: at.path.clone() })).collect()
    }

    /// A table of strings, in order.
    pub(crate) fn text_table(&mut self, at: TreePoint<'_>) -> Vec<(String, String)> {
        let Some(table) = at.node.table() else {
            return self.wanted(&at, "a table of strings").unwrap_or_default();
        };
        let mut found = Vec::new();
        for entry in &table.entries {
            if let Some(text) = self.text(at.inner(&entry.node, &entry.key)) {
                found.push((entry.key.clone(), text));
            }
        }
        found
    }

    /// A role.
    pub(crate) fn role(&mut self, at: &TreePoint<'_>) -> Option<String> {
        let role = self.text(at.clone())?;
        self.known_role(&at.node.place, &at.path, &role);
        Some(role)
    }

    /// A role, or a list of them.
    pub(crate) fn roles(&mut self, at: &TreePoint<'_>) -> Option<Vec<String>> {
        let Item::List(nodes) = &at.node.item else {
            return self.role(at).map(|role| vec![role]);
        };
        if nodes.is_empty() {
            return self.reject(at, "an empty list; expected at least one role");
        }
        let mut roles = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            roles.push(self.role(&at.inner(node, &index.to_string()))?);
        }
        Some(roles)
    }

    /// Reports a role that neither the language nor this spec defines.
    pub(crate) fn known_role(&mut self, place: &SourcePlace, path: &str, role: &str) {
        let name = bare(role);
        if ROLES.contains(&name) || self.own_roles.contains(name) {
            return;
        }
        let own: Vec<String> = self.own_roles.iter().cloned().collect();
        self.fault(place, path, || {
            let mut help = nearest_clause(nearest(name, ROLES.into_iter().chain(own.iter().map(String::as_str))));
            if help.is_empty() {
                help = "; `menagerie guide spec-reference` lists the roles of each kind, and [gguf.tensors] adds others"
                    .into();
            }
            format!("unknown role `{role}`{help}")
        });
    }
}

/// The two values of `{ gguf = .., hf = .. }`.
fn per_source<'a>(at: &TreePoint<'a>) -> Option<(TreePoint<'a>, TreePoint<'a>)> {
    let table = at.node.table()?;
    if table.entries.len() != 2 {
        return None;
    }
    Some((at.inner(table.get("gguf")?, "gguf"), at.inner(table.get("hf")?, "hf")))
}
