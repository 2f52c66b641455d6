//! Components: one table, or named cases of which exactly one applies in every layer.

use super::decoder::{Decoder, TreePoint, join};
use super::table::field_at;
use crate::kind::written::{Case, Cases, When, WrittenTable, WrittenValue};
use crate::kind::{Family, Field, FieldType, Kind, Table as Definition};
use crate::text::tree::TomlTable;
use menagerie_entries::{nearest, nearest_clause};
use std::sync::Arc;

impl Decoder<'_> {
    /// `[mixer]`, `[feed_forward]`.
    pub(crate) fn component(&mut self, at: &TreePoint<'_>, family: Family) -> Option<Cases> {
        let Some(table) = at.node.table() else { return self.wanted(at, "a table") };
        let fields_of_one =
            |kind: &Kind| table.entries.iter().all(|entry| is_field(kind.options, &entry.key));
        let named = are_cases(table) && !self.kinds.of(family).any(fields_of_one);
        if named {
            return self
                .named_cases(at, table, |decoder, at| decoder.kind_table(at, family, &["kind", "when"]));
        }
        if let Some(when) = table.get("when") {
            self.reject::<()>(
                &at.inner(when, "when"),
                "only a named case or an optional component may have `when`; name the cases",
            );
        }
        let table = self.kind_table(at, family, &["kind", "when"])?;
        Some(one_case(at, None, table))
    }

    /// Whether a value for a name or a component is a component: a known one, or one that is spelled like one.
    pub(super) fn names_kind(&self, at: &TreePoint<'_>, field: &Field) -> bool {
        let FieldType::NameOrKind(list, family) = &field.ty else { return false };
        let written = at.node.text().or_else(|| at.node.table()?.get("kind")?.text());
        let is_kind = |name: &str| name.contains(':') || self.kinds.find(*family, name).is_some();
        written.is_some_and(|name| is_kind(name) && list.all().all(|known| known != name))
    }

    /// A component, or only the name of one without required options.
    pub(super) fn component_or_name(&mut self, at: &TreePoint<'_>, family: Family) -> Option<Cases> {
        let Some(name) = at.node.text() else { return self.component(at, family) };
        let kind = self.known_kind(at, name, family)?;
        let mut written = self.fields(at, &TomlTable::default(), kind.options);
        written.kind = Some(kind);
        Some(one_case(at, None, Arc::new(written)))
    }

    /// An optional table, possibly with `when` or cases.
    pub(super) fn optional(&mut self, at: &TreePoint<'_>, definition: &'static Definition) -> Option<Cases> {
        if let ([only], Some(_)) = (definition.fields, at.node.text())
            && matches!(only.ty, FieldType::Role)
        {
            let mut written = WrittenTable::empty(definition, at.node.place.clone(), at.path.clone());
            written.fields[0] = self.role(at).map(|role| field_at(at, WrittenValue::Role(role)));
            return Some(one_case(at, None, Arc::new(written)));
        }
        let Some(table) = at.node.table() else { return self.wanted(at, "a table") };
        let own =
            |key: &str| key == "when" || is_field(definition, key) || self.is_norm_field(definition, at, key);
        if are_cases(table) && !table.entries.iter().any(|entry| own(&entry.key)) {
            return self.named_cases(at, table, |decoder, at| decoder.table(at, definition, &["when"]));
        }
        let when = table.get("when").and_then(|node| self.when(&at.inner(node, "when")));
        let table = self.table(at, definition, &["when"])?;
        Some(one_case(at, when, table))
    }

    fn is_norm_field(&self, definition: &Definition, at: &TreePoint<'_>, key: &str) -> bool {
        let holds_norm = definition.fields.iter().any(|field| matches!(field.ty, FieldType::NormHere));
        holds_norm && (key == "kind" || self.norm_fields(at).contains(&key))
    }

    fn named_cases(
        &mut self,
        at: &TreePoint<'_>,
        table: &TomlTable,
        read: impl Fn(&mut Self, &TreePoint<'_>) -> Option<Arc<WrittenTable>>,
    ) -> Option<Cases> {
        let mut cases = Vec::new();
        for entry in &table.entries {
            let at = at.inner(&entry.node, &entry.key);
            let when = match entry.node.table().and_then(|table| table.get("when")) {
                Some(node) => self.when(&at.inner(node, "when")),
                None => self.reject(&at, "a named case needs `when`"),
            };
            if let Some(table) = read(self, &at) {
                cases.push(Case { name: entry.key.clone(), when, table });
            }
        }
        let (place, path) = (at.node.place.clone(), at.path.clone());
        (cases.len() == table.entries.len()).then_some(Cases { place, path, named: true, cases })
    }

    /// The table of a component of a family, by its `kind`.
    pub(super) fn kind_table(
        &mut self,
        at: &TreePoint<'_>,
        family: Family,
        more: &[&'static str],
    ) -> Option<Arc<WrittenTable>> {
        let kind = self.kind(at, family)?;
        let written = self.table(at, kind.options, more)?;
        let mut written = Arc::unwrap_or_clone(written);
        written.kind = Some(kind);
        Some(Arc::new(written))
    }

    /// The kind that a table names.
    pub(super) fn kind(&mut self, at: &TreePoint<'_>, family: Family) -> Option<&'static Kind> {
        let Some(table) = at.node.table() else { return self.wanted(at, "a table") };
        let names: Vec<&'static str> = self.kinds.of(family).map(|kind| kind.name).collect();
        let Some(node) = table.get("kind") else {
            let slip = table.entries.iter().find(|entry| nearest(&entry.key, ["kind"]).is_some());
            let hint =
                slip.map(|entry| format!("; did you mean `kind` by `{}`?", entry.key)).unwrap_or_default();
            self.fault(&at.node.place, &join(&at.path, "kind"), || {
                format!("missing{hint}; expected one of {}", names.join(", "))
            });
            return None;
        };
        let at = at.inner(node, "kind");
        let Some(text) = node.text() else {
            return self.wanted(&at, &format!("one of {}", names.join(", ")));
        };
        self.known_kind(&at, text, family)
    }

    /// The kind of a name.
    fn known_kind(&mut self, at: &TreePoint<'_>, name: &str, family: Family) -> Option<&'static Kind> {
        let found = self.kinds.find(family, name);
        if found.is_none() {
            let names: Vec<&'static str> = self.kinds.of(family).map(|kind| kind.name).collect();
            let help = match name.split_once(':') {
                Some((plugin, _)) if !self.kinds.has_plugin(plugin) => format!(
                    "; it belongs to the plugin `{plugin}`, which is not loaded; pass its folder with --plugin-dir"
                ),
                _ => nearest_clause(nearest(name, names.iter().copied())),
            };
            let allowed = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            self.reject::<()>(at, format!("unknown kind `{name}`{help}; allowed: {allowed}"));
        }
        found
    }
}

fn one_case(at: &TreePoint<'_>, when: Option<When>, table: Arc<WrittenTable>) -> Cases {
    let cases = vec![Case { name: String::new(), when, table }];
    Cases { place: at.node.place.clone(), path: at.path.clone(), named: false, cases }
}

/// Whether every entry of a table is a table, and none is `kind`.
fn are_cases(table: &TomlTable) -> bool {
    !table.entries.is_empty() && table.entries.iter().all(|entry| entry.node.table().is_some())
}

fn is_field(definition: &Definition, key: &str) -> bool {
    definition.fields.iter().any(|field| field.name == key)
}
