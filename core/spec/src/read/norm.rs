//! `[norm]`, norm sites, and norms whose options are among other options: each is merged over `[norm]`.

use super::decoder::{CommonNorm, Decoder, TreePoint, join};
use super::table::field_at;
use crate::kind::written::{WrittenField, WrittenSite, WrittenTable};
use crate::kind::{Family, Field, FieldDefault, FieldType, Kind};
use crate::language::sections::SITE;
use crate::text::tree::Item;
use std::sync::Arc;

impl Decoder<'_> {
    /// `[norm]`.
    pub(crate) fn common_norm(&mut self, at: &TreePoint<'_>) {
        self.norm = match self.kind_table(at, Family::Norm, &["kind"]) {
            Some(norm) => CommonNorm::Known(norm),
            None => CommonNorm::Broken,
        };
    }

    /// A norm site: a role, a list of roles, or a table.
    pub(super) fn site(&mut self, at: &TreePoint<'_>) -> Option<WrittenSite> {
        match &at.node.item {
            Item::Text(_) | Item::List(_) => {
                let roles = self.roles(at);
                Some(WrittenSite { norm: self.norm_here(at)?, roles: roles?, when: None })
            }
            Item::Table(table) => {
                let mut allowed: Vec<&'static str> = SITE.fields.iter().map(|field| field.name).collect();
                allowed.retain(|name| *name != "norm");
                allowed.push("kind");
                allowed.extend(self.norm_fields(at));
                self.open_with(at, &allowed);
                let roles = match table.get("role") {
                    Some(node) => self.roles(&at.inner(node, "role")),
                    None => self.reject(&TreePoint { path: join(&at.path, "role"), ..at.clone() }, "missing"),
                };
                let when = table.get("when").and_then(|node| self.when(&at.inner(node, "when")));
                Some(WrittenSite { norm: self.norm_here(at)?, roles: roles?, when })
            }
            _ => self.wanted(at, "a role, a list of roles or a table"),
        }
    }

    /// The options a norm may have here.
    pub(super) fn norm_fields(&self, at: &TreePoint<'_>) -> Vec<&'static str> {
        let stated = at.node.table().and_then(|table| table.get("kind")).and_then(|node| node.text());
        let kind = match (stated, &self.norm) {
            (Some(name), _) => self.kinds.find(Family::Norm, name),
            (None, CommonNorm::Known(norm)) => norm.kind,
            (None, _) => None,
        };
        let of_kind = |kind: &'static Kind| kind.options.fields.iter().map(|field| field.name).collect();
        // With an unknown kind, no option can be called wrong.
        let any =
            || self.kinds.of(Family::Norm).flat_map(|kind| kind.options.fields).map(|f| f.name).collect();
        kind.map_or_else(any, of_kind)
    }

    /// The norm of a table, merged over `[norm]`: options that are not written here are taken from there, as far as
    /// they mean the same in both kinds.
    pub(super) fn norm_here(&mut self, at: &TreePoint<'_>) -> Option<Arc<WrittenTable>> {
        let stated = at.node.table().is_some_and(|table| table.has("kind"));
        let common = match &self.norm {
            CommonNorm::Known(norm) => Some(Arc::clone(norm)),
            CommonNorm::Missing | CommonNorm::Broken => None,
        };
        let kind = match (stated, &common) {
            (true, _) => self.kind(at, Family::Norm)?,
            (false, Some(common)) => common.kind?,
            (false, None) => {
                if matches!(self.norm, CommonNorm::Missing) {
                    self.reject::<()>(at, "no `kind` for this norm: give it here or in [norm]");
                }
                return None;
            }
        };
        let own = at
            .node
            .table()
            .filter(|table| stated || kind.options.fields.iter().any(|field| table.has(field.name)));
        let Some(table) = own else { return common };
        let mut written = WrittenTable::empty(kind.options, at.node.place.clone(), at.path.clone());
        written.kind = Some(kind);
        for (index, field) in kind.options.fields.iter().enumerate() {
            written.fields[index] = match table.get(field.name) {
                Some(node) => {
                    let at = at.inner(node, field.name);
                    self.value(&at, field).map(|value| field_at(&at, value))
                }
                None => {
                    let inherited = common.as_deref().and_then(|common| inherited(common, field));
                    if inherited.is_none() && field.default == FieldDefault::Required {
                        let message = format!("no `{}` for this norm: give it here or in [norm]", field.name);
                        self.reject::<()>(at, message);
                    }
                    inherited
                }
            };
        }
        Some(Arc::new(written))
    }
}

/// The value of the common norm for a field of another norm, if the field means the same in both.
fn inherited(common: &WrittenTable, field: &Field) -> Option<WrittenField> {
    let index = common.table.fields.iter().position(|other| other.name == field.name)?;
    let other = &common.table.fields[index];
    let same_type = match (&other.ty, &field.ty) {
        (FieldType::Name(a), FieldType::Name(b)) => a.title == b.title,
        (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
    };
    if !same_type || other.default != field.default {
        return None;
    }
    common.fields[index].clone()
}
