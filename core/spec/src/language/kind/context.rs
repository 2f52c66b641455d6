//! [`ResolveContext`]: a table of options in one layer of one file, from which a kind makes its config.

use super::option_resolver::{OptionRecord, OptionResolver};
use super::written::{WrittenField, WrittenTable, WrittenValue};
use super::{
    Component, Field, FieldDefault, FieldType, Lazy, NameEnum, NameList, Nested, NormHere, NormSite, Options,
    RecordedFault, Role, Table, Value,
};
use crate::expression::as_count;
use crate::language::origin::ValueOrigin;
use crate::text::source::MetadataValue;
use crate::text::tree::SourcePlace;
use std::sync::Arc;

/// A table of options, in one layer or in the whole model, of one file.
///
/// Methods that return [`RecordedFault`] have recorded a fault.
pub struct ResolveContext<'r> {
    pub(crate) resolver: &'r mut (dyn OptionResolver + 'r),
    table: Arc<WrittenTable>,
    layer: Option<usize>,
    site: Vec<Role>,
}

impl<'r> ResolveContext<'r> {
    pub(crate) fn new(
        resolver: &'r mut (dyn OptionResolver + 'r),
        table: Arc<WrittenTable>,
        layer: Option<usize>,
    ) -> Self {
        ResolveContext { resolver, table, layer, site: Vec::new() }
    }

    /// The same, at another table.
    fn inside(&mut self, table: Arc<WrittenTable>) -> ResolveContext<'_> {
        ResolveContext { resolver: self.resolver, table, layer: self.layer, site: self.site.clone() }
    }

    /// Sets the roles of a norm's tensors.
    pub(crate) fn stand_at(&mut self, roles: &[&str]) {
        self.site = roles.iter().map(|role| role.to_string()).collect();
    }

    /// The context of nested options.
    pub fn at<T>(&mut self, nested: &Nested<T>) -> ResolveContext<'_> {
        self.inside(Arc::clone(&nested.table))
    }

    /// The layer; absent for a component of the whole model.
    pub fn layer(&self) -> Option<usize> {
        self.layer
    }

    /// The roles at which a norm has its tensors; empty for other components.
    pub fn site(&self) -> &[Role] {
        &self.site
    }

    /// Whether the file has a role's tensor in this layer (in the whole model, if there is no layer).
    pub fn has(&self, role: &str) -> bool {
        self.resolver.has_role(role, self.layer)
    }

    /// A key of the file, arrays per layer included. The kind's `reads` must list it.
    pub fn key(&self, key: &str) -> Option<&MetadataValue> {
        self.resolver.consult(key)
    }

    /// A number of the file in this layer; `None` if the file has no such key. The kind's `reads` must list it.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn key_number(&mut self, key: &str) -> Result<Option<f64>, RecordedFault> {
        self.resolver.consult(key);
        let value = match self.resolver.key_in_layer(key, self.layer) {
            None => return Ok(None),
            Some(MetadataValue::Number(value)) => *value,
            Some(MetadataValue::Integer(value)) => *value as f64,
            Some(_) => f64::NAN,
        };
        if value.is_finite() {
            return Ok(Some(value));
        }
        self.key_fault(key, "not a finite number")
    }

    /// Records a fault of a field of the table; the path is dotted for a field of a nested table.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn fault<T>(&mut self, field: &str, message: impl Into<String>) -> Result<T, RecordedFault> {
        let place = self.place_of(field);
        let path = self.path_of(field);
        Err(self.resolver.fault(&place, &path, self.layer, message.into()))
    }

    /// Records a fault of a key of the file.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn key_fault<T>(&mut self, key: &str, message: impl Into<String>) -> Result<T, RecordedFault> {
        Err(self.resolver.key_fault(self.layer, key, message.into()))
    }

    /// Records a value that the kind computed because the field is not written.
    pub fn computed(&mut self, field: &str, value: impl ToString) {
        let guarded = is_guarded(self.table.table, field);
        let path = self.path_of(field);
        let (layer, origin) = (self.layer, ValueOrigin::Default);
        self.resolver.record(OptionRecord { path: &path, layer, value: value.to_string(), origin, guarded });
    }

    /// The value of a lazily read field.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn force<T: Value>(&mut self, lazy: &Lazy<T>) -> Result<T, RecordedFault> {
        T::read(&mut self.inside(Arc::clone(&lazy.table)), lazy.index)
    }

    /// A norm whose options are among other options; `roles` are those of its tensors.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn norm(&mut self, norm: &NormHere, roles: &[&str]) -> Result<Component, RecordedFault> {
        self.norm_of(Arc::clone(&norm.0), roles)
    }

    fn norm_of(&mut self, norm: Arc<WrittenTable>, roles: &[&str]) -> Result<Component, RecordedFault> {
        match self.resolver.resolve_kind(norm, self.layer, roles)? {
            Some(norm) => Ok(norm),
            None => self.fault("kind", "this kind is not a norm"),
        }
    }

    fn path_of(&self, field: &str) -> String {
        if self.table.path.is_empty() { field.to_string() } else { format!("{}.{field}", self.table.path) }
    }

    /// The place of a field; that of its table if the field is not written.
    fn place_of(&self, field: &str) -> SourcePlace {
        let mut table = Arc::clone(&self.table);
        let mut place = table.place.clone();
        for name in field.split('.') {
            let Some(written) = table.field(name) else { break };
            place = written.place.clone();
            let inner = match &written.value {
                WrittenValue::Table(inner) => Arc::clone(inner),
                WrittenValue::Cases(cases) if cases.cases.len() == 1 => Arc::clone(&cases.cases[0].table),
                _ => break,
            };
            table = inner;
        }
        place
    }
}

/// Reading fields for [`Value`]s.
impl ResolveContext<'_> {
    /// A field of the table; a fault if the kind reads more fields than its table has.
    fn definition(&mut self, index: usize) -> Result<&'static Field, RecordedFault> {
        match self.table.table.fields.get(index) {
            Some(field) => Ok(field),
            None => self.fault("", "the kind reads more options than its table has"),
        }
    }

    fn field(&self, index: usize) -> Option<WrittenField> {
        self.table.fields.get(index)?.clone()
    }

    /// The table itself.
    pub(crate) fn written(&self) -> Arc<WrittenTable> {
        Arc::clone(&self.table)
    }

    /// Whether a field is written.
    pub(crate) fn is_written(&self, index: usize) -> bool {
        self.table.fields.get(index).is_some_and(Option::is_some)
    }

    /// Records a fault of the value of a field, by its index: of the key if the value is from the file.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn refuse<T>(&mut self, index: usize, message: impl Into<String>) -> Result<T, RecordedFault> {
        let field = self.definition(index)?;
        match field.default {
            FieldDefault::Key(key) | FieldDefault::KeyOr(key, _) if !self.is_written(index) => {
                self.key_fault(key, format!("{} is {}", field.name, message.into()))
            }
            _ => self.fault(field.name, message),
        }
    }

    fn record(&mut self, index: usize, path: &str, value: String, origin: ValueOrigin) {
        let guarded = self.table.table.fields.get(index).is_some_and(|field| field.guarded);
        self.resolver.record(OptionRecord { path, layer: self.layer, value, origin, guarded });
    }

    /// Records a default of the language, if an error in it would show only in the logits.
    fn record_default(&mut self, index: usize, value: String) {
        if let Some(field) = self.table.table.fields.get(index).filter(|field| field.guarded) {
            let path = self.path_of(field.name);
            self.record(index, &path, value, ValueOrigin::Default);
        }
    }

    /// A number, before rounding, with its path and origin; no origin for a default that is not guarded.
    fn number(&mut self, index: usize) -> Result<(f64, String, Option<ValueOrigin>), RecordedFault> {
        let layer = self.layer;
        if let Some(field) = self.field(index) {
            let WrittenValue::Number(number) = &field.value else { return self.misread(index) };
            let (value, origin) = self.resolver.number(&field, number, layer)?;
            return Ok((value, field.path, Some(origin)));
        }
        let field = self.definition(index)?;
        let path = self.path_of(field.name);
        match field.default {
            FieldDefault::Number(value) => Ok((value, path, field.guarded.then_some(ValueOrigin::Default))),
            FieldDefault::KeyOr(key, value) if !self.resolver.has_key(key) => {
                Ok((value, path, field.guarded.then_some(ValueOrigin::Default)))
            }
            FieldDefault::Key(key) | FieldDefault::KeyOr(key, _) => {
                let (value, origin) = self.resolver.key_value(key, layer)?;
                Ok((value, path, Some(origin)))
            }
            _ => self.misread(index),
        }
    }

    /// The fault of a field that is read with another type than its table declares.
    pub(crate) fn misread<T>(&mut self, index: usize) -> Result<T, RecordedFault> {
        self.refuse(
            index,
            "the kind reads this option with another type than its table declares, or without a default",
        )
    }

    /// A count.
    pub(crate) fn count(&mut self, index: usize) -> Result<usize, RecordedFault> {
        let (value, path, origin) = self.number(index)?;
        let Some(count) = as_count(value) else {
            let message = format!("{value} is not a count");
            return match (self.is_written(index), self.definition(index)?.default) {
                (false, FieldDefault::Key(key) | FieldDefault::KeyOr(key, _)) => self.key_fault(key, message),
                _ => self.refuse(index, message),
            };
        };
        if let Some(origin) = origin {
            self.record(index, &path, count.to_string(), origin);
        }
        Ok(count)
    }

    /// A real number: computed in f64, rounded to f32 once.
    pub(crate) fn real(&mut self, index: usize) -> Result<f32, RecordedFault> {
        let (value, path, origin) = self.number(index)?;
        let rounded = value as f32;
        if !rounded.is_finite() {
            return self.refuse(index, format!("{value} is not a number an f32 can hold"));
        }
        if let Some(origin) = origin {
            self.record(index, &path, rounded.to_string(), origin);
        }
        Ok(rounded)
    }

    /// A boolean.
    pub(crate) fn boolean(&mut self, index: usize) -> Result<bool, RecordedFault> {
        let Some(field) = self.field(index) else { return self.misread(index) };
        let WrittenValue::Bool(condition) = &field.value else { return self.misread(index) };
        let at = (&field.place, field.path.as_str());
        let (value, origin) = self.resolver.condition(at, condition, self.layer)?;
        self.record(index, &field.path, value.to_string(), origin);
        Ok(value)
    }

    /// A role.
    pub(crate) fn role(&mut self, index: usize) -> Result<Role, RecordedFault> {
        match self.field(index).map(|field| field.value) {
            Some(WrittenValue::Role(role)) => Ok(role),
            _ => self.misread(index),
        }
    }

    /// A name of a closed list.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn named<T: NameEnum>(&mut self, index: usize) -> Result<T, RecordedFault> {
        let place = self.place_in(index, T::LIST)?;
        T::VALUES.get(place).copied().map_or_else(|| self.misread(index), Ok)
    }

    /// A name of a closed list, as text.
    pub(crate) fn name_in(
        &mut self,
        index: usize,
        list: &'static NameList,
    ) -> Result<&'static str, RecordedFault> {
        let place = self.place_in(index, list)?;
        list.names.get(place).map_or_else(|| self.misread(index), |def| Ok(def.name))
    }

    /// The position of a name in its list.
    pub(crate) fn place_in(&mut self, index: usize, list: &'static NameList) -> Result<usize, RecordedFault> {
        let Some(field) = self.field(index) else {
            let FieldDefault::Name(name) = self.definition(index)?.default else {
                return self.misread(index);
            };
            self.record_default(index, name.to_string());
            let found = list.names.iter().position(|def| def.name == name);
            return found.map_or_else(|| self.misread(index), Ok);
        };
        let (name, origin) = match &field.value {
            WrittenValue::Name(choice) => self.resolver.choice(&field, choice, self.layer)?,
            WrittenValue::NumberedName(name, _) => (*name, ValueOrigin::Spec),
            _ => return self.misread(index),
        };
        let text = list.names.get(name).map_or("", |def| def.name);
        self.record(index, &field.path, text.to_string(), origin);
        Ok(name)
    }

    /// The numbers that belong to the name in a field.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn numbers<T: Options>(&mut self, index: usize) -> Result<T, RecordedFault> {
        match self.field(index).map(|field| field.value) {
            Some(WrittenValue::NumberedName(_, numbers)) => T::read(&mut self.inside(numbers)),
            _ => self.misread(index),
        }
    }

    /// A list of names of a closed list.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn names<T: NameEnum>(&mut self, index: usize) -> Result<Vec<T>, RecordedFault> {
        match self.field(index).map(|field| field.value) {
            Some(WrittenValue::Names(names)) => {
                Ok(names.into_iter().filter_map(|name| T::VALUES.get(name).copied()).collect())
            }
            _ => self.misread(index),
        }
    }

    /// The options of a table in a field; its defaults if it is not written.
    ///
    /// # Errors
    /// [`RecordedFault`]: the value cannot be used, and the fault is recorded.
    pub fn table<T: Options>(&mut self, index: usize) -> Result<T, RecordedFault> {
        let table = match self.field(index) {
            Some(WrittenField { value: WrittenValue::Table(table), .. }) => table,
            Some(_) => return self.misread(index),
            None => self.unwritten(index)?,
        };
        T::read(&mut self.inside(table))
    }

    /// An unwritten table.
    fn unwritten(&mut self, index: usize) -> Result<Arc<WrittenTable>, RecordedFault> {
        let field = self.definition(index)?;
        let definition: &'static Table = match (&field.ty, field.default) {
            (
                FieldType::Table(table) | FieldType::OneOrEach(table),
                FieldDefault::Fields | FieldDefault::Listed,
            ) => table,
            _ => return self.misread(index),
        };
        let path = self.path_of(field.name);
        Ok(Arc::new(WrittenTable::empty(definition, self.table.place.clone(), path)))
    }

    /// The options of a table that is optional or does not apply in this layer.
    pub(crate) fn optional<T: Options>(&mut self, index: usize) -> Result<Option<Nested<T>>, RecordedFault> {
        let Some(field) = self.field(index) else { return Ok(None) };
        let WrittenValue::Cases(cases) = &field.value else { return self.misread(index) };
        match self.resolver.case(cases, self.layer)? {
            Some(table) => {
                let options = T::read(&mut self.inside(Arc::clone(&table)))?;
                Ok(Some(Nested { options, table }))
            }
            None => Ok(None),
        }
    }

    /// A component inside another one.
    pub(crate) fn component(&mut self, index: usize) -> Result<Component, RecordedFault> {
        let (Some(field), Some(layer)) = (self.field(index), self.layer) else { return self.misread(index) };
        let WrittenValue::Cases(cases) = &field.value else { return self.misread(index) };
        match self.resolver.component(cases, layer)? {
            Some(component) => Ok(component),
            None => self.refuse(index, "this layer has no component; one is required here"),
        }
    }

    /// Whether a field for a name or a component contains a component.
    pub(crate) fn is_component(&self, index: usize) -> bool {
        matches!(self.table.fields.get(index), Some(Some(WrittenField { value: WrittenValue::Cases(_), .. })))
    }

    /// The options of a norm among other fields.
    pub(crate) fn norm_here(&mut self, index: usize) -> Result<Arc<WrittenTable>, RecordedFault> {
        match self.field(index).map(|field| field.value) {
            Some(WrittenValue::Table(table)) => Ok(table),
            _ => self.misread(index),
        }
    }

    /// A norm at a role.
    pub(crate) fn norm_place(&mut self, index: usize) -> Result<Option<NormSite>, RecordedFault> {
        let Some(field) = self.field(index) else { return Ok(None) };
        let WrittenValue::Site(site) = &field.value else { return self.misread(index) };
        if let Some(when) = &site.when
            && !self.resolver.when(when, self.layer)?
        {
            return Ok(None);
        }
        let present = site.roles.iter().find(|role| self.has(role));
        let Some(role) = present.or(site.roles.last()).cloned() else { return self.misread(index) };
        let norm = self.norm_of(Arc::clone(&site.norm), &[&role])?;
        Ok(Some(NormSite { role, norm }))
    }

    /// Refuses an option that this build does not support.
    pub(crate) fn not_built_in<T>(&mut self, index: usize) -> Result<T, RecordedFault> {
        let name = self.definition(index)?.name;
        let others =
            self.table.table.fields.iter().filter(|field| !matches!(field.ty, FieldType::NotBuiltIn));
        let others: Vec<&str> = others.map(|field| field.name).collect();
        let of = self.table.kind.map(|kind| format!(" of `{}`", kind.name)).unwrap_or_default();
        let message = format!("`{name}`{of} is not built in; built in are: {}", others.join(", "));
        self.refuse(index, message)
    }
}

/// Access for rope scaling.
impl ResolveContext<'_> {
    /// Records a fault of a tensor of the file.
    pub(crate) fn tensor_fault<T>(
        &mut self,
        role: &str,
        message: impl Into<String>,
    ) -> Result<T, RecordedFault> {
        Err(self.resolver.file_fault(self.layer, format!("tensor {role}"), message.into()))
    }

    /// Records a value of the file, by a path under the table.
    pub(crate) fn record_at(&mut self, field: &str, value: String, origin: ValueOrigin) {
        let path = self.path_of(field);
        self.resolver.record(OptionRecord { path: &path, layer: self.layer, value, origin, guarded: false });
    }
}

/// Whether an error in a field would show only in the logits; the path is dotted for a field of a nested table.
fn is_guarded(table: &Table, field: &str) -> bool {
    let (first, rest) = field.split_once('.').map_or((field, None), |(first, rest)| (first, Some(rest)));
    let Some(definition) = table.fields.iter().find(|definition| definition.name == first) else {
        return false;
    };
    match (rest, &definition.ty) {
        (None, _) => definition.guarded,
        (Some(rest), FieldType::Table(inner) | FieldType::Optional(inner) | FieldType::OneOrEach(inner)) => {
            is_guarded(inner, rest)
        }
        (Some(_), _) => false,
    }
}
