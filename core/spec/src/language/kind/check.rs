//! Rules for tables that types cannot express: checked once when kinds are collected.

use super::{Family, Field, FieldDefault, FieldType, Kind, RoleDef, Sizes, Table};
use std::collections::BTreeMap;

/// Keys in the same table as a component's options.
const TAKEN: [&str; 2] = ["kind", "when"];
/// Keys in the same table as the options of a norm.
const BESIDE_NORMS: [&str; 3] = ["role", "over", "at"];

/// The tables that were checked: their names and fields.
pub(super) struct TableCheck {
    tables: BTreeMap<&'static str, Vec<&'static str>>,
}

impl TableCheck {
    /// A check that knows the sections of a spec file.
    pub(super) fn new(file: &'static Table) -> TableCheck {
        let mut checked = TableCheck { tables: BTreeMap::new() };
        for field in file.fields {
            if let FieldType::Table(table) = field.ty {
                checked.tables.insert(table.shown(), names(table));
            }
        }
        checked
    }

    /// Checks a kind.
    ///
    /// # Errors
    /// The contradiction in the kind's table.
    pub(super) fn kind(&mut self, kind: &Kind) -> Result<(), String> {
        for field in kind.options.fields {
            let beside_norm = kind.family == Family::Norm && BESIDE_NORMS.contains(&field.name);
            if TAKEN.contains(&field.name) || beside_norm {
                return Err(format!("option `{}` has a name that the language takes there", field.name));
            }
        }
        kind.options.fields.iter().try_for_each(|field| self.field(field))?;
        kind.roles.iter().try_for_each(|role| dims(role, kind))
    }

    fn table(&mut self, table: &'static Table) -> Result<(), String> {
        let own = names(table);
        if let Some(other) = self.tables.insert(table.shown(), own.clone())
            && other != own
        {
            return Err(format!("another table is called `{}` too; rename the struct of one", table.shown()));
        }
        table.fields.iter().try_for_each(|field| self.field(field))
    }

    fn field(&mut self, field: &'static Field) -> Result<(), String> {
        let fits = match (&field.ty, field.default) {
            (_, FieldDefault::Required | FieldDefault::Absent) => true,
            (_, FieldDefault::Computed { .. }) => !matches!(field.ty, FieldType::NormHere),
            (FieldType::Name(list) | FieldType::NameOrKind(list, _), FieldDefault::Name(name)) => {
                list.all().any(|known| known == name)
            }
            (FieldType::Name(_), FieldDefault::RequiredUnless { .. }) => true,
            (
                FieldType::Count | FieldType::Real,
                FieldDefault::Number(_) | FieldDefault::Key(_) | FieldDefault::KeyOr(..),
            ) => true,
            (FieldType::Table(_), FieldDefault::Fields | FieldDefault::Listed) => true,
            (FieldType::OneOrEach(_) | FieldType::NormHere, FieldDefault::Fields) => true,
            _ => false,
        };
        if !fits {
            return Err(format!("option `{}` cannot have the default {:?}", field.name, field.default));
        }
        match &field.ty {
            FieldType::Table(table) | FieldType::Optional(table) | FieldType::OneOrEach(table) => {
                self.table(table)
            }
            FieldType::Name(list) | FieldType::NameOrKind(list, _) => {
                let mut numbers = list.names.iter().filter_map(|def| def.numbers);
                numbers.try_for_each(|table| self.table(table))
            }
            _ => Ok(()),
        }
    }
}

fn names(table: &Table) -> Vec<&'static str> {
    table.fields.iter().map(|field| field.name).collect()
}

/// Checks that the dims of a tensor can be parsed: with every symbol set to 2, every dim has a size.
fn dims(role: &RoleDef, kind: &Kind) -> Result<(), String> {
    for dim in role.dims {
        let symbols = dim.split(['*', '+', '/']).filter(|part| part.parse::<u64>().is_err());
        let mut sizes = Sizes::default();
        symbols.for_each(|symbol| sizes.set(symbol, 2));
        let empty = dim.split(['*', '+', '/']).any(str::is_empty);
        if empty || sizes.dim(dim).size.is_none() {
            return Err(format!("tensor `{}` of `{}`: `{dim}` is not a dimension", role.name, kind.name));
        }
    }
    Ok(())
}
