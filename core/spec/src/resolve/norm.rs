//! Norms and the sites they stand at.

use super::Resolver;
use crate::config::{BiasRule, NormConfig, NormKind, NormSite};
use crate::names::NormWeight;
use crate::tree::Place;
use crate::written::{NormOverride, Site};

impl Resolver<'_> {
    /// A norm site. `None` is a fault already reported; `Some(None)` is no norm here.
    pub(super) fn site(&mut self, site: Option<&Site>, layer: Option<usize>) -> Option<Option<NormSite>> {
        let Some(site) = site else { return Some(None) };
        if let Some(when) = &site.when
            && !self.truth(when, layer)?
        {
            return Some(None);
        }
        let present = site.roles.iter().find(|role| self.input.roles.has(role, layer));
        let role = present.or(site.roles.last())?.clone();
        let norm = self.norm(&site.norm, (&site.place, &site.path), &[&role], layer)?;
        Some(Some(NormSite { role, norm }))
    }

    /// The common norm with what a site says otherwise. `roles` are where an `if-present` bias is looked for.
    pub(super) fn norm(
        &mut self,
        own: &NormOverride,
        at: (&Place, &str),
        roles: &[&str],
        layer: Option<usize>,
    ) -> Option<NormConfig> {
        let common = self.spec.body.norm.as_ref();
        let kind = match own.kind.as_ref().or(common.map(|norm| &norm.kind)) {
            Some(kind) => self.name(kind, layer)?,
            None => return self.no_norm(at, "kind", layer),
        };
        let eps = match own.eps.as_ref().or(common.map(|norm| &norm.eps)) {
            Some(eps) => self.real(eps, layer)?,
            None => return self.no_norm(at, "eps", layer),
        };
        if eps < 0.0 {
            self.fault(at.0, at.1, layer, format!("an epsilon of {eps}: it must not be negative"));
            return None;
        }
        // A norm of another kind than the common one does not take over its bias rule.
        let same_kind = own.kind.is_none();
        let weight = own.weight.as_ref().or(common.and_then(|norm| norm.weight.as_ref()));
        let bias = own.bias.as_ref().or(common.filter(|_| same_kind).and_then(|norm| norm.bias.as_ref()));
        let offset = own.offset.as_ref().or(common.and_then(|norm| norm.offset.as_ref()));
        let weight = self.name_or(weight, layer, NormWeight::Own)? == NormWeight::Own;
        let rule = match bias {
            Some(bias) => self.name(bias, layer)?,
            None if kind == NormKind::Layer => BiasRule::Required,
            None => BiasRule::None,
        };
        let present = || roles.iter().any(|role| self.input.roles.has(&format!("{role}.bias"), layer));
        let bias = match rule {
            BiasRule::None => false,
            BiasRule::Required => weight,
            BiasRule::IfPresent => present(),
        };
        let offset = self.real_or(offset, layer, 0.0)?;
        Some(NormConfig { kind, eps, weight, bias, offset })
    }

    fn no_norm<T>(&mut self, at: (&Place, &str), field: &str, layer: Option<usize>) -> Option<T> {
        self.fault(at.0, at.1, layer, format!("no `{field}` for this norm: give it here or in [norm]"));
        None
    }
}
