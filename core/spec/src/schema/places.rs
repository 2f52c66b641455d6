//! Places of the language as schema types: numbers, names, sites, reasons.

use crate::config::{BiasRule, NormKind};
use crate::names::{NameSet, NormWeight};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// A name from a closed list.
pub(super) struct Names<T>(PhantomData<T>);

impl<T: NameSet> JsonSchema for Names<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        T::names().collect::<Vec<_>>().join("_or_").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": T::names().collect::<Vec<_>>() })
    }
}

/// A name, a name per source, or a choice.
pub(super) type Name<T> = NamePlace<Names<T>>;

/// [`Name`] over what a single name is.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // mirrors the language; only its schema is used
pub(super) enum NamePlace<N> {
    /// The same for every file.
    Given(N),
    /// Stored differently in the two formats.
    PerSource(PerSource<N>),
    /// Taken from a value of the file.
    Choice(Choice<N>),
}

/// The same weights stored differently in the two formats.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, inline)]
#[allow(dead_code)] // as Name
pub(super) struct PerSource<T> {
    gguf: T,
    hf: T,
}

/// A name taken from a value of the file: `{ by = "<expression>", 1 = "softmax" }`.
#[derive(JsonSchema)]
#[schemars(inline)]
#[allow(dead_code)] // as Name
pub(super) struct Choice<N> {
    by: Expression,
    #[schemars(flatten)]
    answers: BTreeMap<String, N>,
}

/// An expression: minijinja over canonical keys and `[let]` names.
#[derive(JsonSchema)]
#[schemars(inline)]
#[allow(dead_code)] // as Name
pub(super) struct Expression(#[schemars(length(min = 1))] String);

/// A number or an expression.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Name
pub(super) enum Value {
    Number(f64),
    Expression(Expression),
}

/// A number, perhaps per source.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Name
pub(super) enum Number {
    Given(Value),
    PerSource(PerSource<Value>),
}

/// A truth or an expression.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Name
pub(super) enum Truth {
    Given(bool),
    Expression(Expression),
}

/// A literal.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Name
pub(super) enum Lit {
    Number(f64),
    Bool(bool),
    Text(String),
    List(Vec<serde_json::Value>),
}

/// Globs and reasons.
pub(super) type Reasons = BTreeMap<String, String>;

/// A norm site: a role, a list of roles (the first that exists), or a table.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, clippy::large_enum_variant)] // as Name
pub(super) enum Site {
    Role(String),
    FirstOf(Vec<String>),
    Table(SiteTable),
}

#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code)] // as Name
pub(super) enum Roles {
    Role(String),
    FirstOf(Vec<String>),
}

/// A norm site that differs from `[norm]`.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, rename = "Site")]
#[allow(dead_code)] // as Name
pub(super) struct SiteTable {
    role: Roles,
    kind: Option<Name<NormKind>>,
    eps: Option<Number>,
    weight: Option<Name<NormWeight>>,
    bias: Option<Name<BiasRule>>,
    offset: Option<Number>,
    when: Option<Truth>,
}
