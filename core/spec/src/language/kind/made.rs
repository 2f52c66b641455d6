//! [`MadeConfig`]: the config of a kind that is created at run time, from tables of a plugin.

use super::{
    BiasRule, Component, Family, FieldType, FreeSize, Kind, RecordedFault, Resolve, ResolveContext, RoleDef,
    Sizes, Table, TensorKind,
};
use std::any::TypeId;

/// The rule for a tensor of such a kind with a required bias.
pub const BIAS_REQUIRED: &str = "bias";

/// The rule for a tensor of such a kind with an optional bias.
pub const BIAS_IF_PRESENT: &str = "bias, if present";

/// The definition of a kind that is created at run time.
#[derive(Clone, Copy, Debug)]
pub struct MadeKind {
    /// Where it may stand.
    pub family: Family,
    /// Its name in `kind = ".."`.
    pub name: &'static str,
    /// What it is, with the source of its formula.
    pub doc: &'static str,
    /// Its options: counts, reals and names.
    pub options: &'static Table,
    /// Its tensors; a row whose condition is its own role is used if the file has it.
    pub roles: &'static [RoleDef],
    /// Sizes that only the shapes of a file determine.
    pub free: &'static [FreeSize],
}

impl MadeKind {
    /// The kind, allocated for the lifetime of the process.
    pub fn leak(self) -> &'static Kind {
        let MadeKind { family, name, doc, options, roles, free } = self;
        Box::leak(Box::new(Kind {
            family,
            name,
            doc,
            options,
            roles,
            free,
            reads: &[],
            resolve: Resolve::Config(resolve),
            sizes: Some(sizes),
            regime_limit: None,
            parts: None,
            config: Some(TypeId::of::<MadeConfig>),
        }))
    }
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub enum OptionValue {
    /// A whole number.
    Count(usize),
    /// A number.
    Real(f32),
    /// A name of the option's list.
    Name(&'static str),
}

/// The values of the options of such a kind in one layer, in the order of its table, and which tensors the file has.
#[derive(Clone, Debug, PartialEq)]
pub struct MadeConfig {
    values: Vec<(&'static str, OptionValue)>,
    /// Conditions of rows, and their values.
    present: Vec<(&'static str, bool)>,
}

impl MadeConfig {
    /// The value of an option.
    pub fn get(&self, option: &str) -> Option<OptionValue> {
        self.values.iter().find(|(name, _)| *name == option).map(|(_, value)| *value)
    }
}

impl serde::Serialize for MadeConfig {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.values.iter().copied())
    }
}

/// Reads the config with the table of the written kind.
fn resolve(at: &mut ResolveContext<'_>) -> Result<Component, RecordedFault> {
    let written = at.written();
    let Some(kind) = written.kind else { return at.fault("kind", "the options of no kind") };
    let mut values = Vec::with_capacity(kind.options.fields.len());
    for (index, field) in kind.options.fields.iter().enumerate() {
        let value = match field.ty {
            FieldType::Count => at.count(index).map(OptionValue::Count),
            FieldType::Real => at.real(index).map(OptionValue::Real),
            FieldType::Name(list) => at.name_in(index, list).map(OptionValue::Name),
            _ => at.refuse(index, "a kind that is made at run time has counts, reals and names alone"),
        };
        values.push(value.map(|value| (field.name, value)));
    }
    let present = kind.roles.iter().filter_map(|role| Some((role.when?, is_there(role, at)))).collect();
    Ok(Component::made(
        kind,
        MadeConfig { values: values.into_iter().collect::<Result<_, RecordedFault>>()?, present },
    ))
}

/// Whether the file has the tensor of a row.
fn is_there(role: &RoleDef, at: &ResolveContext<'_>) -> bool {
    let suffix = if role.tensor == TensorKind::Bias { ".bias" } else { "" };
    let site = at.site().first().map_or("", String::as_str);
    let name = if role.name.is_empty() { site } else { role.name };
    at.has(&format!("{name}{suffix}"))
}

fn sizes(component: &Component, into: &mut Sizes) {
    into.bias(BIAS_REQUIRED, BiasRule::Required);
    into.bias(BIAS_IF_PRESENT, BiasRule::IfPresent);
    let Some(config) = component.config_ref::<MadeConfig>() else { return };
    for (name, value) in &config.values {
        if let OptionValue::Count(count) = value {
            into.set(name, *count);
        }
    }
    config.present.iter().for_each(|(condition, holds)| into.holds(condition, *holds));
}
