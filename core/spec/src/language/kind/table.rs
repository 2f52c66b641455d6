//! [`Table`] and [`Field`]: the definition of the options of a TOML table.

use super::{Family, NameList};

/// A TOML table of the language.
#[derive(Debug)]
pub struct Table {
    /// Its name in the schema and on the reference page, without a final `Options` or `Config`.
    pub title: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Its fields, in the order they are shown.
    pub fields: &'static [Field],
}

impl Table {
    /// Its name in messages.
    pub(crate) fn shown(&self) -> &'static str {
        self.title.trim_end_matches("Options").trim_end_matches("Config")
    }
}

/// One field of a table.
#[derive(Debug)]
pub struct Field {
    /// Its key.
    pub name: &'static str,
    /// The type of its value.
    pub ty: FieldType,
    /// Its default.
    pub default: FieldDefault,
    /// Whether an error in it would show only in the logits.
    pub guarded: bool,
    /// What it means.
    pub doc: &'static str,
}

impl Field {
    /// A field without influence on the computation of a model.
    pub(crate) const fn new(
        name: &'static str,
        ty: FieldType,
        default: FieldDefault,
        doc: &'static str,
    ) -> Field {
        Field { name, ty, default, guarded: false, doc }
    }
}

/// The type of a field's value.
#[derive(Debug)]
pub enum FieldType {
    /// An integer, or an expression for one.
    Count,
    /// A number, or an expression for one.
    Real,
    /// A boolean, or an expression for one.
    Bool,
    /// A name of a closed list, also per source or selected by a value of the file.
    Name(&'static NameList),
    /// A name of a closed list, or a component of a family: `kind` and its options, or only the name of a component
    /// without options.
    NameOrKind(&'static NameList, Family),
    /// A list of names of a closed list.
    Names(&'static NameList),
    /// A list of names of a closed list, or one name.
    OneOrMore(&'static NameList),
    /// A role.
    Role,
    /// A role, or a list of roles of which the first existing one is used.
    Roles,
    /// A table.
    Table(&'static Table),
    /// An optional table with or without `when`, or named cases with a `when` each.
    Optional(&'static Table),
    /// A name that applies to every field of the table, or the table.
    OneOrEach(&'static Table),
    /// A component of a family, or named cases of which exactly one applies in every layer.
    Component(Family),
    /// A norm of a role: the role, a list of roles, or a table with `role`, `when` and options of the norm.
    NormSite,
    /// Not a key: the options of a norm among the other fields, merged over `[norm]`.
    NormHere,
    /// An option that the language knows and this build does not support; any value is allowed.
    NotBuiltIn,
    /// A string.
    Text,
    /// A list of strings.
    Texts,
    /// A literal integer.
    Literal(i64),
    /// A table of strings.
    TextTable,
    /// A table of globs with the reason why their matches do not matter.
    Reasons,
    /// A table of named expressions.
    Expressions,
    /// A table of expressions that must be true, each with its message.
    Checks,
    /// A table of values of any kind.
    Values,
    /// A list of class names, or a table of classes.
    Classes(&'static Table),
    /// A table of canonical keys and literals or expressions over config names.
    ConfigValues,
    /// A table of roles and their names in a Hugging Face folder.
    HfTensors,
    /// A table of roles and the factors of their products in a Hugging Face folder.
    HfTimes,
}

/// The default of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldDefault {
    /// None: the field is required.
    Required,
    /// None, unless another field has this name; `why` explains it.
    RequiredUnless {
        /// The other field.
        field: &'static str,
        /// Its name.
        is: &'static str,
        /// Why there is no default.
        why: &'static str,
    },
    /// The field may be absent.
    Absent,
    /// A number.
    Number(f64),
    /// A name of the field's list.
    Name(&'static str),
    /// The value of a canonical key (with the key's own standard default, if it has one).
    Key(&'static str),
    /// The value of a canonical key, or this number if the file has none.
    KeyOr(&'static str, f64),
    /// Computed by the kind, from other fields and these keys.
    Computed {
        /// How, in words.
        how: &'static str,
        /// Keys it reads.
        reads: &'static [&'static str],
    },
    /// A table: the defaults of its fields.
    Fields,
    /// Options of a named list entry: the defaults of its fields; ignored unless the list contains that name.
    Listed,
}
