//! [`Table`] and [`Field`]: the options of a TOML table, said once.

use super::{Family, NameList};

/// A TOML table of the language.
#[derive(Debug)]
pub struct Table {
    /// Its name in the schema and on the reference page, where `Options` and `Config` are left off its end.
    pub title: &'static str,
    /// What it says.
    pub doc: &'static str,
    /// Its fields, in the order they are shown.
    pub fields: &'static [Field],
}

impl Table {
    /// What people are shown as its name.
    pub(crate) fn shown(&self) -> &'static str {
        self.title.trim_end_matches("Options").trim_end_matches("Config")
    }
}

/// One field of a table.
#[derive(Debug)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// What may stand there.
    pub ty: FieldType,
    /// What holds where it is not written.
    pub default: FieldDefault,
    /// Whether a wrong value would be seen in nothing but the logits.
    pub guarded: bool,
    /// What it means.
    pub doc: &'static str,
}

impl Field {
    /// A field that changes nothing a model computes.
    pub(crate) const fn new(
        name: &'static str,
        ty: FieldType,
        default: FieldDefault,
        doc: &'static str,
    ) -> Field {
        Field { name, ty, default, guarded: false, doc }
    }
}

/// What may stand in a field.
#[derive(Debug)]
pub enum FieldType {
    /// A whole number, or an expression that gives one.
    Count,
    /// A number, or an expression that gives one.
    Real,
    /// A boolean, or an expression that returns one.
    Bool,
    /// A name of a closed list, also per source or by a value of the file.
    Name(&'static NameList),
    /// A name of a closed list, or a component of a family: `kind` and its options, or the name alone of one without.
    NameOrKind(&'static NameList, Family),
    /// A list of names of a closed list.
    Names(&'static NameList),
    /// A list of names of a closed list, or one name.
    OneOrMore(&'static NameList),
    /// A role.
    Role,
    /// A role, or a list of roles of which the first that exists counts.
    Roles,
    /// A table.
    Table(&'static Table),
    /// A table that may be left out, has a `when`, or is named cases with a `when` each.
    Optional(&'static Table),
    /// A name that holds for every field of the table, or the table.
    OneOrEach(&'static Table),
    /// A component of a family, or named cases of which exactly one holds in every layer.
    Component(Family),
    /// A norm of a role: the role, a list of roles, or a table with `role`, `when` and options of the norm.
    NormSite,
    /// Not a key: the options of a norm stand beside the other fields, laid over `[norm]`.
    NormHere,
    /// The language knows it, this build does not have it; anything may stand there.
    NotBuiltIn,
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// A whole number that is written out.
    Literal(i64),
    /// A table of strings.
    TextTable,
    /// A table of globs and why what they match does not matter.
    Reasons,
    /// A table of named expressions.
    Expressions,
    /// A table of expressions that must hold, each with what it means if it does not.
    Checks,
    /// A table of values of any kind.
    Values,
    /// A list of class names, or a table of classes.
    Classes(&'static Table),
    /// A table of canonical keys and literals or expressions over config names.
    ConfigValues,
    /// A table of roles and the names they are stored under in an HF directory.
    HfTensors,
    /// A table of roles and what their products are multiplied with in an HF directory.
    HfTimes,
}

/// What holds where a field is not written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldDefault {
    /// It must be written.
    Required,
    /// It must be written unless another field is this name; `why` says what is special about it.
    RequiredUnless {
        /// The other field.
        field: &'static str,
        /// Its name.
        is: &'static str,
        /// Why there is no default.
        why: &'static str,
    },
    /// There is none of it.
    Absent,
    /// A number.
    Number(f64),
    /// A name of the field's list.
    Name(&'static str),
    /// The value of a canonical key (with the key's own standard default, if it has one).
    Key(&'static str),
    /// The value of a canonical key, and this number where a file has none.
    KeyOr(&'static str, f64),
    /// Computed by the kind, from other fields and these keys.
    Computed {
        /// How, in words.
        how: &'static str,
        /// Keys it reads.
        reads: &'static [&'static str],
    },
    /// A table: its own defaults.
    Fields,
    /// A table of options of the name beside it in a list: its own defaults, which count only if the list has the name.
    Listed,
}
