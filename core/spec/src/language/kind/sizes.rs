//! [`Sizes`]: values for the symbols in a kind's table of tensors, and the tensors that result.

use super::{BiasRule, Component, NormSite, Role, RoleDef, TensorKind};
use std::collections::BTreeMap;

/// Values of a config for the symbols, conditions, bias rules, roles and norms in its kind's [`RoleDef`]s.
#[derive(Clone, Debug, Default)]
pub struct Sizes {
    numbers: BTreeMap<&'static str, u64>,
    conditions: BTreeMap<&'static str, bool>,
    biases: BTreeMap<&'static str, BiasRule>,
    roles: BTreeMap<&'static str, Role>,
    norms: BTreeMap<&'static str, Component>,
}

impl Sizes {
    /// Sets the size of a symbol.
    pub fn set(&mut self, symbol: &'static str, size: usize) {
        self.numbers.insert(symbol, size as u64);
    }

    /// Sets a condition.
    pub fn holds(&mut self, condition: &'static str, holds: bool) {
        self.conditions.insert(condition, holds);
    }

    /// Sets a bias rule.
    pub fn bias(&mut self, rule: &'static str, value: BiasRule) {
        self.biases.insert(rule, value);
    }

    /// Sets a role from the spec; without a role, the tensor is not used.
    pub fn role(&mut self, name: &'static str, role: Option<&Role>) {
        if let Some(role) = role {
            self.roles.insert(name, role.clone());
        }
    }

    /// Sets a norm; without a norm, its tensors are not used.
    pub fn norm(&mut self, name: &'static str, norm: Option<&Component>) {
        self.holds(name, norm.is_some());
        if let Some(norm) = norm {
            self.norms.insert(name, norm.clone());
        }
    }

    /// Sets a norm at a role from the spec; without one, its tensors are not used.
    pub(crate) fn norm_site(&mut self, name: &'static str, site: Option<&NormSite>) {
        self.role(name, site.map(|site| &site.role));
        self.norm(name, site.map(|site| &site.norm));
    }

    /// A dim: sums of products of symbols and numbers, `/n` at the end of a product; unknown if a symbol is free.
    pub fn dim(&self, text: &'static str) -> Dim {
        let size = text.split('+').map(|product| self.product(product)).sum();
        Dim { text, size }
    }

    fn product(&self, text: &str) -> Option<u64> {
        let (factors, divisor) = text.split_once('/').unwrap_or((text, "1"));
        let divisor = divisor.parse::<u64>().ok().filter(|divisor| *divisor > 0)?;
        let factor = |name: &str| name.parse().ok().or_else(|| self.numbers.get(name).copied());
        let product = factors.split('*').map(factor).try_fold(1u64, |all, one| all.checked_mul(one?));
        product.map(|product| product / divisor)
    }

    /// The rows of a table that are used, every form of a group.
    pub fn wanted(&self, roles: &'static [RoleDef]) -> Vec<WantedRole> {
        let mut wanted = Vec::new();
        for def in roles {
            let off = def.when.is_some_and(|name| !self.conditions.get(name).copied().unwrap_or(false));
            let role = match def.given_by {
                Some(name) => self.roles.get(name).cloned(),
                None => Some(def.name.to_string()),
            };
            let (false, Some(role)) = (off, role) else { continue };
            let dims = def.dims.iter().map(|text| self.dim(text)).collect();
            let bias = def.bias.and_then(|name| self.biases.get(name).copied()).unwrap_or(BiasRule::None);
            let norm = def.when.filter(|_| def.tensor == TensorKind::Norm);
            let norm = norm.and_then(|name| self.norms.get(name).cloned());
            wanted.push(WantedRole { def, role, dims, bias, norm });
        }
        wanted
    }
}

/// A dim of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim {
    /// In symbols, as in the table.
    pub text: &'static str,
    /// Elements; absent if a symbol is free.
    pub size: Option<u64>,
}

/// A tensor that a config needs.
#[derive(Clone, Debug)]
pub struct WantedRole {
    /// Its row of the table.
    pub def: &'static RoleDef,
    /// Its role; empty for a norm's own tensors.
    pub role: Role,
    /// Its dims, fastest first.
    pub dims: Vec<Dim>,
    /// Its bias.
    pub bias: BiasRule,
    /// The norm, if the row is one: its own table determines its tensors.
    pub norm: Option<Component>,
}

impl WantedRole {
    /// The tensors of a file: a role with its suffix and the dims of each; a norm's are those of its kind.
    pub fn stored(&self) -> Vec<StoredTensor> {
        let Some(norm) = &self.norm else { return self.own() };
        let width = self.dims.iter().map(|dim| dim.size).product::<Option<u64>>();
        let width = width.and_then(|width| usize::try_from(width).ok()).unwrap_or(0);
        norm.wanted_norm(&self.role, width).iter().flat_map(WantedRole::own).collect()
    }

    fn own(&self) -> Vec<StoredTensor> {
        let stored = |suffix: &str, dims: &[Dim], rule: BiasRule, is_bias: bool| StoredTensor {
            def: self.def,
            role: format!("{}{suffix}", self.role),
            dims: dims.to_vec(),
            rule,
            is_bias,
        };
        if self.def.tensor == TensorKind::Bias {
            // A role from the spec includes the suffix of its tensor.
            let suffix = if self.def.given_by.is_some() { "" } else { ".bias" };
            return vec![stored(suffix, &self.dims, BiasRule::Required, true)];
        }
        // `ffn_gate_inp.scale` is a tensor's whole name.
        let suffix = if self.role.ends_with(".scale") { "" } else { ".weight" };
        let mut tensors = vec![stored(suffix, &self.dims, BiasRule::Required, false)];
        if self.bias != BiasRule::None {
            tensors.push(stored(".bias", self.dims.get(1..).unwrap_or(&[]), self.bias, true));
        }
        tensors
    }
}

/// One tensor of a file.
#[derive(Clone, Debug)]
pub struct StoredTensor {
    /// Its row of the table, or that of the weight that it is the bias of.
    pub def: &'static RoleDef,
    /// Its role with the suffix, `attn_q.weight`.
    pub role: Role,
    /// Its dims, fastest first.
    pub dims: Vec<Dim>,
    /// Whether it is required.
    pub rule: BiasRule,
    /// Whether it is a bias.
    pub is_bias: bool,
}
