//! `[norm]`, norm sites and what they override.

use super::fields::{At, Decoder, Fields, join};
use crate::shapes;
use crate::tree::Item;
use crate::written::{Norm, NormOverride, Site};

/// `[norm]`.
pub(super) fn norm(decoder: &mut Decoder, at: At<'_>) -> Option<Norm> {
    let fields = decoder.open(at, &shapes::NORM)?;
    let kind = fields.need(decoder, "kind").and_then(|at| decoder.name(at));
    let eps = fields.need(decoder, "eps").and_then(|at| decoder.number(at));
    let rest = overrides(decoder, &fields, false);
    Some(Norm { kind: kind?, eps: eps?, weight: rest.weight, bias: rest.bias, offset: rest.offset })
}

/// The fields of a norm that a site or a QK-norm may give; `own` says whether `kind` and `eps` are among them.
pub(super) fn overrides(decoder: &mut Decoder, fields: &Fields<'_>, own: bool) -> NormOverride {
    NormOverride {
        kind: fields.get("kind").filter(|_| own).and_then(|at| decoder.name(at)),
        eps: fields.get("eps").filter(|_| own).and_then(|at| decoder.number(at)),
        weight: fields.get("weight").and_then(|at| decoder.name(at)),
        bias: fields.get("bias").and_then(|at| decoder.name(at)),
        offset: fields.get("offset").and_then(|at| decoder.number(at)),
    }
}

/// A norm site: a role, a list of roles, or a table.
pub(super) fn site(decoder: &mut Decoder, at: At<'_>) -> Option<Site> {
    let place = at.node.place.clone();
    let path = at.path.clone();
    let plain = |roles| Site {
        place: place.clone(),
        path: path.clone(),
        roles,
        norm: NormOverride::default(),
        when: None,
    };
    match &at.node.item {
        Item::Text(_) | Item::List(_) => roles(decoder, at).map(plain),
        Item::Table(_) => {
            let fields = decoder.open(at, &shapes::SITE)?;
            let roles = fields.need(decoder, "role").and_then(|at| roles(decoder, at));
            let norm = overrides(decoder, &fields, true);
            let when = fields.get("when").and_then(|at| decoder.truth(at));
            roles.map(|roles| Site { norm, when, ..plain(roles) })
        }
        other => {
            let message = format!("found {}; a role, a list of roles or a table is wanted", other.describe());
            decoder.reject(&at, message)
        }
    }
}

fn roles(decoder: &mut Decoder, at: At<'_>) -> Option<Vec<String>> {
    let Item::List(nodes) = &at.node.item else {
        return decoder.role(at).map(|role| vec![role]);
    };
    if nodes.is_empty() {
        return decoder.reject(&at, "an empty list; at least one role is wanted");
    }
    let mut roles = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        roles.push(decoder.role(At { node, path: join(&at.path, &index.to_string()) })?);
    }
    Some(roles)
}
