//! Converts the description of a component to a kind of the spec language.

use crate::component::{ComponentDescription, FamilyFunctions, PluginOption, RoleDescription};
use crate::texts::leaked;
use menagerie_plugin::abi::{OptionDef, RoleDef as Row};
use menagerie_spec::kind::{
    BIAS_IF_PRESENT, BIAS_REQUIRED, Family, Field, FieldDefault, FieldType, FreeSize, Kind, MadeKind,
    NameDef, NameList, RoleDef, Table,
};

/// The kind of a component; `None` for families that are not part of specs.
///
/// # Errors
/// A fault of its tables, with the name of the component.
pub(crate) fn kind_of(described: &ComponentDescription) -> Result<Option<&'static Kind>, String> {
    let family = match described.work {
        FamilyFunctions::Mixer(_) => Family::Mixer,
        FamilyFunctions::FeedForward(_) => Family::FeedForward,
        FamilyFunctions::Norm(_) => Family::Norm,
        FamilyFunctions::Activation(_) => Family::Activation,
        FamilyFunctions::Rope(_) => Family::Rope,
        FamilyFunctions::Sampler(_) | FamilyFunctions::Tokenizer(..) | FamilyFunctions::LayerHook(..) => {
            return Ok(None);
        }
    };
    let refused = |why: String| format!("its component `{}`: {why}", described.name);
    let inner = matches!(family, Family::Activation | Family::Rope);
    if let Some(role) = described.roles.first().filter(|_| inner) {
        let why =
            format!("it requests the tensor `{}`, but only the component around it has tensors", role.name);
        return Err(refused(why));
    }
    let fields = described
        .options
        .iter()
        .map(|row| field(row, described.name))
        .collect::<Result<Vec<_>, _>>()
        .map_err(refused)?;
    let roles = described.roles.iter().map(|row| role(row, family));
    let roles = roles.collect::<Result<Vec<_>, _>>().map_err(refused)?;
    let made = MadeKind {
        family,
        name: described.name,
        doc: described.doc,
        options: leaked_one(Table {
            title: leaked(&format!("{} {}", family.name(), described.name)),
            doc: leaked(&format!("Options of `{}`.", described.name)),
            fields: fields.leak(),
        }),
        free: free_sizes(described).leak(),
        roles: roles.leak(),
    };
    Ok(Some(made.leak()))
}

fn leaked_one<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// An option as a field of the language.
fn field(row: &PluginOption, owner: &str) -> Result<Field, String> {
    let refused = |why: &str| Err(format!("option `{}`: {why}", row.name));
    let given = match (row.default.is_empty(), row.default.parse::<f64>()) {
        (true, _) => None,
        (false, Ok(number)) if number.is_finite() => Some(number),
        (false, _) if row.kind == OptionDef::NAME => None,
        (false, _) => return refused("its default is not a number"),
    };
    let number = match (given, row.key) {
        (None, "") => FieldDefault::Required,
        (None, key) => FieldDefault::Key(key),
        (Some(number), "") => FieldDefault::Number(number),
        (Some(number), key) => FieldDefault::KeyOr(key, number),
    };
    let is_count = |number: f64| number >= 0.0 && number.fract() == 0.0;
    let (ty, default) = match row.kind {
        OptionDef::COUNT if !given.is_none_or(is_count) => {
            return refused("its default is not a whole number");
        }
        OptionDef::COUNT => (FieldType::Count, number),
        OptionDef::REAL => (FieldType::Real, number),
        OptionDef::NAME if !row.key.is_empty() => return refused("a name cannot be read from a key"),
        OptionDef::NAME => (FieldType::Name(names(row, owner)?), default_name(row)?),
        OptionDef::TEXT => {
            return refused(
                "specs have no texts; samplers, tokenizers and layer hooks may have such options",
            );
        }
        other => return refused(&format!("kind {other} is not known")),
    };
    Ok(Field { name: row.name, ty, default, guarded: row.guarded, doc: row.doc })
}

/// The name that holds where none is written.
fn default_name(row: &PluginOption) -> Result<FieldDefault, String> {
    if row.default.is_empty() {
        return Ok(FieldDefault::Required);
    }
    let bare = row.default.trim_matches('"');
    match row.names.iter().find(|name| **name == bare) {
        Some(name) => Ok(FieldDefault::Name(name)),
        None => Err(format!("option `{}`: its default is not on its list of names", row.name)),
    }
}

/// The list of an option's names.
fn names(row: &PluginOption, owner: &str) -> Result<&'static NameList, String> {
    let is_name = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    if row.names.is_empty() || !row.names.iter().all(is_name) {
        return Err(format!("option `{}`: expected at least one name of a-z, 0-9 and `-`", row.name));
    }
    let defs: Vec<NameDef> =
        row.names.iter().map(|name| NameDef { name, doc: "", reads: &[], numbers: None }).collect();
    Ok(leaked_one(NameList {
        title: leaked(&format!("{owner} {}", row.name)),
        doc: row.doc,
        names: defs.leak(),
    }))
}

/// A row of tensors as one of the language.
fn role(row: &RoleDescription, family: Family) -> Result<RoleDef, String> {
    let is_role = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.');
    let of_norm = family == Family::Norm;
    if row.name.is_empty() != of_norm || !row.name.bytes().all(is_role) {
        return Err(format!(
            "role `{}`: {}",
            row.name.escape_debug(),
            if of_norm {
                "expected an empty name, because a norm has only one weight and one bias"
            } else {
                "expected a name of a-z, 0-9, `_` and `.`"
            }
        ));
    }
    let dims: &'static [&'static str] = row.dims.clone().leak();
    let (name, doc) = (row.name, row.doc);
    let def = match row.form {
        Row::LINEAR => RoleDef::linear(name, dims, doc),
        Row::LINEAR_WITH_BIAS => RoleDef::linear(name, dims, doc).with_bias(BIAS_REQUIRED),
        Row::LINEAR_MAY_HAVE_BIAS => RoleDef::linear(name, dims, doc).with_bias(BIAS_IF_PRESENT),
        Row::VALUES => RoleDef::values(name, dims, doc),
        Row::BIAS => RoleDef::only_bias(name, dims, doc),
        other => return Err(format!("role `{name}`: form {other} is not known")),
    };
    if !row.optional {
        return Ok(def);
    }
    let suffix = if row.form == Row::BIAS { "bias" } else { "weight" };
    Ok(def.when(leaked(&format!("{name}.{suffix}"))))
}

/// Symbols of dims that neither the language nor an option defines.
fn free_sizes(described: &ComponentDescription) -> Vec<FreeSize> {
    let is_free = |symbol: &&str| {
        !matches!(*symbol, "D" | "width")
            && symbol.parse::<u64>().is_err()
            && !described.options.iter().any(|option| option.name == *symbol)
    };
    let mut free: Vec<FreeSize> = Vec::new();
    for dim in described.roles.iter().flat_map(|role| &role.dims) {
        for symbol in dim.split(['*', '+', '/']).filter(is_free) {
            if !free.iter().any(|known| known.symbol == symbol) {
                // The usual symbol of the inner width of a feed-forward.
                let hints: &'static [&'static str] =
                    if symbol == "F" { &["feed_forward_length"] } else { &[] };
                free.push(FreeSize { symbol, hints, doc: "A size that the tensors of a file give." });
            }
        }
    }
    free
}
