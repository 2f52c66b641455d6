//! The features of a spec for listings, derived from the tables.

use crate::kind::written::{BySource, Cases, NameChoice, WrittenTable, WrittenValue};
use crate::kind::{Field, FieldDefault, FieldType};
use crate::language::spec::ArchSpec;

impl ArchSpec {
    /// The features of the spec for listings, in words of the language, such as `attention`, `qk-norm` and `yarn`.
    pub fn features(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for case in self.body.components().into_iter().flat_map(|cases| &cases.cases) {
            let nothing = case.table.kind.is_none_or(|kind| kind.name == "none");
            let mut add = |text: String| {
                if !found.contains(&text) {
                    found.push(text);
                }
            };
            if let (false, Some(kind)) = (nothing, case.table.kind) {
                add(format!("{}{}", kind.name, names(&case.table)));
                options(&case.table, &mut add);
            }
        }
        found
    }

    /// The kinds and options of the spec that this build does not support; resolving a layer that needs one is an
    /// error.
    pub fn not_built_in(&self) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        for cases in self.body.components() {
            unavailable_cases(cases, &mut found);
        }
        found
    }
}

/// The names that characterize a component: those of its own guarded fields without a default.
fn names(table: &WrittenTable) -> String {
    let fields = table.table.fields.iter().zip(&table.fields);
    let telling = fields.filter(|(field, _)| field.guarded && field.default == FieldDefault::Required);
    telling.filter_map(|(field, written)| name(field, &written.as_ref()?.value)).collect()
}

fn name(field: &Field, value: &WrittenValue) -> Option<String> {
    let (FieldType::Name(list) | FieldType::NameOrKind(list, _)) = &field.ty else { return None };
    let index = match value {
        WrittenValue::Name(NameChoice::Given(BySource::Same(index) | BySource::Each { gguf: index, .. })) => {
            *index
        }
        WrittenValue::Name(NameChoice::By { .. }) => return Some(" by key".into()),
        WrittenValue::NumberedName(index, _) => *index,
        WrittenValue::Cases(cases) => return Some(format!(" {}", cases.cases.first()?.table.kind?.name)),
        _ => return None,
    };
    Some(format!(" {}", list.names[index].name))
}

/// Optional parts that are present, at any depth.
fn options(table: &WrittenTable, add: &mut dyn FnMut(String)) {
    for (field, written) in table.table.fields.iter().zip(&table.fields) {
        let Some(written) = written else { continue };
        let telling = matches!(field.ty, FieldType::Optional(_) | FieldType::Role | FieldType::Real);
        if telling && field.default == FieldDefault::Absent {
            add(field.name.replace('_', "-"));
        }
        match (&written.value, &field.ty) {
            (WrittenValue::Names(names), FieldType::Names(list)) => {
                names.iter().for_each(|index| add(list.names[*index].name.to_string()));
            }
            (WrittenValue::Table(inner), _) => options(inner, add),
            (WrittenValue::Cases(cases), _) => cases.cases.iter().for_each(|case| options(&case.table, add)),
            _ => {}
        }
    }
}

fn unavailable_cases(cases: &Cases, found: &mut Vec<String>) {
    for case in &cases.cases {
        match case.table.kind.filter(|kind| !kind.is_built_in()) {
            Some(kind) => found.push(format!("{} kind `{}`", kind.family.name(), kind.name)),
            None => unavailable(&case.table, found),
        }
    }
}

fn unavailable(table: &WrittenTable, found: &mut Vec<String>) {
    for written in table.fields.iter().flatten() {
        match &written.value {
            WrittenValue::NotBuiltIn => found.push(written.path.clone()),
            WrittenValue::Table(inner) => unavailable(inner, found),
            WrittenValue::Cases(cases) => unavailable_cases(cases, found),
            _ => {}
        }
    }
}
