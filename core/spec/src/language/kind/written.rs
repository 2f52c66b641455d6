//! Tables of options as written: the decoder builds them from the TOML tree, and
//! [`ResolveContext`](super::ResolveContext) reads them.

use super::{Kind, Role, Table};
use crate::expression::Expression;
use crate::text::source::SourceFormat;
use crate::text::tree::SourcePlace;
use std::sync::Arc;

/// A value that may differ between source formats.
#[derive(Clone, Debug)]
pub(crate) enum BySource<T> {
    Same(T),
    Each { gguf: T, hf: T },
}

impl<T> BySource<T> {
    /// The value for a source format.
    pub(crate) fn for_source(&self, source: SourceFormat) -> &T {
        match (self, source) {
            (BySource::Same(value), _) => value,
            (BySource::Each { gguf, .. }, SourceFormat::Gguf) => gguf,
            (BySource::Each { hf, .. }, SourceFormat::Hf) => hf,
        }
    }
}

/// A number or the expression that gives it.
#[derive(Clone, Debug)]
pub(crate) enum Scalar {
    Literal(f64),
    Expression(Arc<Expression>),
}

/// A boolean or the expression that returns it.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Literal(bool),
    Expression(Arc<Expression>),
}

/// A condition and its place in the spec.
#[derive(Clone, Debug)]
pub(crate) struct When {
    pub(crate) place: SourcePlace,
    pub(crate) path: String,
    pub(crate) value: Condition,
}

/// A name by its index in the closed list, possibly per source, or selected by a value of the file.
#[derive(Clone, Debug)]
pub(crate) enum NameChoice {
    Given(BySource<usize>),
    By { by: Arc<Expression>, answers: Vec<(String, usize)> },
}

/// The value of a field.
#[derive(Clone, Debug)]
pub(crate) enum WrittenValue {
    Number(BySource<Scalar>),
    Bool(Condition),
    Name(NameChoice),
    /// A name by its index, and its numbers.
    NumberedName(usize, Arc<WrittenTable>),
    Names(Vec<usize>),
    Role(Role),
    Table(Arc<WrittenTable>),
    Cases(Cases),
    Site(WrittenSite),
    NotBuiltIn,
}

/// A field and its place in the spec.
#[derive(Clone, Debug)]
pub(crate) struct WrittenField {
    pub(crate) place: SourcePlace,
    pub(crate) path: String,
    pub(crate) value: WrittenValue,
}

/// The written fields of a table, in the order of the table.
#[derive(Clone, Debug)]
pub(crate) struct WrittenTable {
    pub(crate) table: &'static Table,
    pub(crate) place: SourcePlace,
    pub(crate) path: String,
    /// The kind, if the options are a component's.
    pub(crate) kind: Option<&'static Kind>,
    pub(crate) fields: Vec<Option<WrittenField>>,
}

impl WrittenTable {
    /// A table without written fields.
    pub(crate) fn empty(table: &'static Table, place: SourcePlace, path: String) -> WrittenTable {
        WrittenTable { table, place, path, kind: None, fields: vec![None; table.fields.len()] }
    }

    /// Index and value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&WrittenField> {
        let index = self.table.fields.iter().position(|field| field.name == name)?;
        self.fields.get(index)?.as_ref()
    }
}

/// A component: one, or named cases of which exactly one applies in every layer.
#[derive(Clone, Debug)]
pub(crate) struct Cases {
    pub(crate) place: SourcePlace,
    pub(crate) path: String,
    /// Whether these are named cases; otherwise there is exactly one, without a name.
    pub(crate) named: bool,
    pub(crate) cases: Vec<Case>,
}

/// One case of a component.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) when: Option<When>,
    pub(crate) table: Arc<WrittenTable>,
}

/// A place where a norm is applied.
#[derive(Clone, Debug)]
pub(crate) struct WrittenSite {
    /// The first existing one is used.
    pub(crate) roles: Vec<Role>,
    pub(crate) when: Option<When>,
    pub(crate) norm: Arc<WrittenTable>,
}
