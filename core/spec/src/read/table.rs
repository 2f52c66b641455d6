//! Decodes tables of options by their definitions.

use super::decoder::{Decoder, TreePoint, join};
use crate::kind::written::{NameChoice, WrittenField, WrittenTable, WrittenValue};
use crate::kind::{Field, FieldDefault, FieldType, NameList, Table as Definition};
use crate::text::tree::{Item, TomlTable};
use std::sync::Arc;

impl Decoder<'_> {
    /// A table of options. `more` are additional keys that are decoded elsewhere.
    pub(crate) fn table(
        &mut self,
        at: &TreePoint<'_>,
        definition: &'static Definition,
        more: &[&'static str],
    ) -> Option<Arc<WrittenTable>> {
        let mut allowed = more.to_vec();
        for field in definition.fields {
            match field.ty {
                FieldType::NormHere => {
                    allowed.push("kind");
                    allowed.extend(self.norm_fields(at));
                }
                _ => allowed.push(field.name),
            }
        }
        let table = self.open_with(at, &allowed)?;
        Some(Arc::new(self.fields(at, table, definition)))
    }

    /// The fields of a table, after its keys were checked.
    pub(super) fn fields(
        &mut self,
        at: &TreePoint<'_>,
        table: &TomlTable,
        definition: &'static Definition,
    ) -> WrittenTable {
        let mut written = WrittenTable::empty(definition, at.node.place.clone(), at.path.clone());
        for (index, field) in definition.fields.iter().enumerate() {
            if matches!(field.ty, FieldType::NormHere) {
                let value = self.norm_here(at).map(WrittenValue::Table);
                written.fields[index] = value.map(|value| field_at(at, value));
                continue;
            }
            match table.get(field.name) {
                Some(node) => {
                    let at = at.inner(node, field.name);
                    written.fields[index] = self.value(&at, field).map(|value| field_at(&at, value));
                }
                None => self.absent(at, table, field),
            }
        }
        written
    }

    /// Reports a missing required field.
    fn absent(&mut self, at: &TreePoint<'_>, table: &TomlTable, field: &Field) {
        let names = match field.ty {
            FieldType::Name(list) | FieldType::NameOrKind(list, _) => {
                list.all().collect::<Vec<_>>().join(" or ")
            }
            _ => String::new(),
        };
        let message = match field.default {
            FieldDefault::Required if names.is_empty() => "missing".to_string(),
            FieldDefault::Required => format!("missing; expected one of {names}"),
            FieldDefault::RequiredUnless { field: other, is, why } => {
                let other = table.get(other);
                if other.is_none_or(|node| node.text() == Some(is)) {
                    return;
                }
                format!("missing; {why}: {names}")
            }
            _ => return,
        };
        self.fault(&at.node.place, &join(&at.path, field.name), || message);
    }

    /// The value of a field, by its type.
    pub(super) fn value(&mut self, at: &TreePoint<'_>, field: &'static Field) -> Option<WrittenValue> {
        match &field.ty {
            FieldType::Count => self.count(at).map(WrittenValue::Number),
            FieldType::Real => self.number(at).map(WrittenValue::Number),
            FieldType::Bool => self.condition(at).map(WrittenValue::Bool),
            FieldType::NameOrKind(_, family) if self.names_kind(at, field) => {
                self.component_or_name(at, *family).map(WrittenValue::Cases)
            }
            FieldType::Name(list) | FieldType::NameOrKind(list, _)
                if at.node.table().is_some_and(|table| table.has("kind")) =>
            {
                self.name_with_numbers(at, list)
            }
            FieldType::Name(list) | FieldType::NameOrKind(list, _) => {
                self.name(at, list).map(WrittenValue::Name)
            }
            FieldType::Names(list) => self.names(at, list).map(WrittenValue::Names),
            FieldType::Role => self.role(at).map(WrittenValue::Role),
            FieldType::Table(table) => self.table(at, table, &[]).map(WrittenValue::Table),
            FieldType::OneOrEach(table) => self.one_or_each(at, table).map(WrittenValue::Table),
            FieldType::Optional(table) => self.optional(at, table).map(WrittenValue::Cases),
            FieldType::Component(family) => self.component(at, *family).map(WrittenValue::Cases),
            FieldType::NormSite => self.site(at).map(WrittenValue::Site),
            FieldType::NotBuiltIn => Some(WrittenValue::NotBuiltIn),
            // Types of sections, which have their own decoders.
            FieldType::NormHere
            | FieldType::OneOrMore(_)
            | FieldType::Roles
            | FieldType::Text
            | FieldType::Texts
            | FieldType::Literal(_)
            | FieldType::TextTable
            | FieldType::Reasons
            | FieldType::Expressions
            | FieldType::Checks
            | FieldType::Values
            | FieldType::Classes(_)
            | FieldType::ConfigValues
            | FieldType::HfTensors
            | FieldType::HfTimes => self.reject(at, "an option of a component cannot be of this type"),
        }
    }

    fn names(&mut self, at: &TreePoint<'_>, list: &'static NameList) -> Option<Vec<usize>> {
        let Item::List(nodes) = &at.node.item else {
            return self.wanted(at, &format!("a list of {}", list.all().collect::<Vec<_>>().join(", ")));
        };
        let mut found = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            found.extend(self.plain_name(&at.inner(node, &index.to_string()), list));
        }
        Some(found)
    }

    /// A name for every field of a table, or the table.
    fn one_or_each(
        &mut self,
        at: &TreePoint<'_>,
        definition: &'static Definition,
    ) -> Option<Arc<WrittenTable>> {
        let each = |table: &TomlTable| !(table.has("by") || table.has("gguf") && table.has("hf"));
        if at.node.table().is_some_and(each) {
            return self.table(at, definition, &[]);
        }
        let list = definition.fields.iter().find_map(|field| match field.ty {
            FieldType::Name(list) => Some(list),
            _ => None,
        })?;
        let name: NameChoice = self.name(at, list)?;
        let mut written = WrittenTable::empty(definition, at.node.place.clone(), at.path.clone());
        written.fields.fill(Some(field_at(at, WrittenValue::Name(name))));
        Some(Arc::new(written))
    }
}

/// A field with its place.
pub(super) fn field_at(at: &TreePoint<'_>, value: WrittenValue) -> WrittenField {
    WrittenField { place: at.node.place.clone(), path: at.path.clone(), value }
}
