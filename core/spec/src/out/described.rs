//! [`KindDescription`]: the options and tensors of a kind, for people and programs; derived from its table.

use crate::kind::{Field, FieldDefault, FieldType, Kind, RoleDef, Table, TensorKind};
use crate::out::schema::plain;

/// A kind with its options and tensors.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct KindDescription {
    /// `mixer`, `feed-forward` or `norm`.
    pub family: &'static str,
    /// Its name in `kind = ".."`.
    pub name: &'static str,
    /// Whether models with it can be run.
    pub built_in: bool,
    /// What it is, with the source of its formula.
    pub meaning: String,
    /// Its options; those of tables in it by their dotted path.
    pub options: Vec<OptionDescription>,
    /// Its possible tensors.
    pub tensors: Vec<TensorDescription>,
    /// Canonical keys that it reads, besides those of its options.
    pub keys: Vec<&'static str>,
}

/// An option of a kind.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct OptionDescription {
    /// Dotted path under the kind.
    pub name: String,
    /// The type of its value, in words.
    pub accepts: String,
    /// Whether it is required.
    pub required: bool,
    /// Its default; empty for none.
    pub default: String,
    /// What it means.
    pub meaning: String,
    /// Whether an error in it would show only in the logits.
    pub guarded: bool,
}

/// A tensor of a kind.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TensorDescription {
    /// Its role.
    pub role: String,
    /// Its dims in symbols, fastest first.
    pub dims: Vec<&'static str>,
    /// The rule of its bias, if it can have one.
    pub bias: Option<&'static str>,
    /// Its condition; empty for always.
    pub when: String,
    /// What it is.
    pub meaning: String,
}

impl Kind {
    /// The description of the kind.
    pub fn describe(&self) -> KindDescription {
        let mut options = Vec::new();
        fields(self.options, "", &mut Vec::new(), &mut options);
        KindDescription {
            family: self.family.name(),
            name: self.name,
            built_in: self.is_built_in(),
            meaning: plain(self.doc),
            options,
            tensors: self.roles.iter().map(tensor).collect(),
            keys: self.reads.to_vec(),
        }
    }
}

/// `open` holds the tables that are being described, so that recursion ends.
fn fields(
    table: &'static Table,
    path: &str,
    open: &mut Vec<&'static str>,
    into: &mut Vec<OptionDescription>,
) {
    open.push(table.title);
    for field in table.fields {
        let name = match field.ty {
            FieldType::NormHere => format!("{path}kind, and the options of the norm"),
            _ => format!("{path}{}", field.name),
        };
        let required = matches!(field.default, FieldDefault::Required | FieldDefault::RequiredUnless { .. });
        into.push(OptionDescription {
            accepts: value_text(&field.ty),
            required,
            default: default_text(field),
            meaning: plain(field.doc),
            guarded: field.guarded,
            name: name.clone(),
        });
        if let FieldType::Table(inner) | FieldType::Optional(inner) | FieldType::OneOrEach(inner) = field.ty
            && !open.contains(&inner.title)
        {
            fields(inner, &format!("{name}."), open, into);
        }
    }
    open.pop();
}

fn tensor(role: &RoleDef) -> TensorDescription {
    let name = match (role.name, role.tensor) {
        ("", TensorKind::Bias) => "the site's role, .bias".to_owned(),
        ("", _) => "the site's role".to_owned(),
        (name, TensorKind::Bias) => format!("{name}.bias"),
        (name, _) => name.to_owned(),
    };
    let mut when: Vec<String> = role.when.map(str::to_owned).into_iter().collect();
    when.extend(role.given_by.map(|option| format!("{option} given")));
    when.extend(role.form.map(|(group, form)| format!("{group}: {form}")));
    TensorDescription {
        role: name,
        dims: role.dims.to_vec(),
        bias: role.bias,
        when: when.join("; "),
        meaning: plain(role.doc),
    }
}

/// The type of a field's value, in words.
pub(crate) fn value_text(ty: &FieldType) -> String {
    let names = |list: &crate::kind::NameList| list.all().collect::<Vec<_>>().join(" | ");
    match ty {
        FieldType::Count => "count".into(),
        FieldType::Real => "number".into(),
        FieldType::Bool => "boolean".into(),
        FieldType::Name(list) => names(list),
        FieldType::NameOrKind(list, family) => format!("{} | {} of a component", names(list), family.name()),
        FieldType::Names(list) => format!("list of {}", names(list)),
        FieldType::OneOrMore(list) => format!("one or a list of {}", names(list)),
        FieldType::Role => "role".into(),
        FieldType::Roles => "role, or list of roles".into(),
        FieldType::Table(_) => "table".into(),
        FieldType::Optional(_) => "table, with `when`, or cases".into(),
        FieldType::OneOrEach(_) => "one name for all, or a table".into(),
        FieldType::Component(family) => format!("{}, or cases", family.name()),
        FieldType::NormSite => "role of a norm, roles, or table with `role`".into(),
        FieldType::NormHere => "norm".into(),
        FieldType::NotBuiltIn => "not built in".into(),
        FieldType::Text => "string".into(),
        FieldType::Texts => "list of strings".into(),
        FieldType::Literal(value) => value.to_string(),
        FieldType::TextTable => "table of strings".into(),
        FieldType::Reasons => "globs and reasons".into(),
        FieldType::Expressions => "names and expressions".into(),
        FieldType::Checks => "expressions and messages".into(),
        FieldType::Values | FieldType::ConfigValues => "keys and values".into(),
        FieldType::Classes(_) => "class names".into(),
        FieldType::HfTensors => "roles and names".into(),
        FieldType::HfTimes => "roles and numbers".into(),
    }
}

/// The default of a field, in words.
pub(crate) fn default_text(field: &Field) -> String {
    match field.default {
        FieldDefault::Required | FieldDefault::Absent | FieldDefault::Listed => String::new(),
        FieldDefault::RequiredUnless { field, is, .. } => format!("only with {field} = \"{is}\""),
        FieldDefault::Number(number) => number.to_string(),
        FieldDefault::Name(name) => name.to_owned(),
        FieldDefault::Key(key) => format!("key {key}"),
        FieldDefault::KeyOr(key, number) => format!("key {key}, or {number}"),
        FieldDefault::Computed { how, .. } => how.to_owned(),
        FieldDefault::Fields => "its own".to_owned(),
    }
}
