//! `[feed_forward]`: gated, plain, moe.

use super::fields::{At, Decoder, Fields, join};
use super::mixer::{cases, kind, not_built_in};
use crate::names::{ActivationName, ExpertForm, FeedForwardKind, NameSet};
use crate::shapes;
use crate::written::{
    BySource, Cases, Choice, Dense, Expert, FeedForward, Field, Groups, Moe, Name, Router, SharedExpert,
};

/// `[feed_forward]`.
pub(super) fn feed_forward(decoder: &mut Decoder, at: At<'_>) -> Option<Cases<FeedForward>> {
    let moe =
        at.node.table().is_some_and(|table| table.get("kind").and_then(|node| node.text()) == Some("moe"));
    let shape = if moe { &shapes::MOE } else { &shapes::DENSE };
    cases(decoder, at, shape, false, feed_forward_case)
}

fn feed_forward_case(decoder: &mut Decoder, at: At<'_>) -> Option<FeedForward> {
    match kind::<FeedForwardKind>(decoder, &at)?.1 {
        FeedForwardKind::Gated => dense(decoder, at).map(FeedForward::Gated),
        FeedForwardKind::Plain => dense(decoder, at).map(FeedForward::Plain),
        FeedForwardKind::Moe => moe(decoder, at).map(|found| FeedForward::Moe(Box::new(found))),
        FeedForwardKind::None => decoder.open(at, &shapes::NONE).map(|_| FeedForward::None),
    }
}

fn dense(decoder: &mut Decoder, at: At<'_>) -> Option<Dense> {
    let fields = decoder.open(at, &shapes::DENSE)?;
    let activation = fields.need(decoder, "activation").and_then(|at| activation(decoder, at));
    let bias = fields.get("bias").and_then(|at| decoder.name(at));
    let not_built_in = ["inner_norm", "limit"]
        .into_iter()
        .filter_map(|key| {
            let at = fields.get(key)?;
            Some(not_built_in(&at, &format!("`{key}` of a feed-forward"), &["activation", "bias"]))
        })
        .collect();
    Some(Dense { activation: activation?, bias, not_built_in })
}

/// An activation: a name, or a table for those with numbers.
fn activation(decoder: &mut Decoder, at: At<'_>) -> Option<Name<ActivationName>> {
    let table = at.node.table().filter(|table| table.has("kind"));
    let Some(table) = table else { return decoder.name(at) };
    let inner = At { node: table.get("kind")?, path: join(&at.path, "kind") };
    let (name, value) = decoder.plain_name::<ActivationName>(&inner)?;
    if matches!(value, ActivationName::BuiltIn(_)) && table.entries.len() > 1 {
        return decoder.reject(&at, format!("`{name}` has no numbers; write \"{name}\""));
    }
    let value = Choice::Given(BySource::Same((name, value)));
    Some(Field { place: inner.node.place.clone(), path: at.path, value })
}

fn moe(decoder: &mut Decoder, at: At<'_>) -> Option<Moe> {
    let fields = decoder.open(at, &shapes::MOE)?;
    let experts = fields.need(decoder, "experts").and_then(|at| {
        let fields = decoder.open(at, &shapes::EXPERT)?;
        expert(decoder, &fields)
    });
    let shared = fields.get("shared").and_then(|at| cases(decoder, at, &shapes::SHARED_EXPERT, true, shared));
    let router = fields.need(decoder, "router").and_then(|at| router(decoder, at));
    Some(Moe { experts: experts?, shared, router: router? })
}

fn expert(decoder: &mut Decoder, fields: &Fields<'_>) -> Option<Expert> {
    let form = fields.need(decoder, "kind").and_then(|at| decoder.name::<ExpertForm>(at));
    let activation = fields.need(decoder, "activation").and_then(|at| activation(decoder, at));
    let bias = fields.get("bias").and_then(|at| decoder.name(at));
    Some(Expert { form: form?, activation: activation?, bias })
}

fn shared(decoder: &mut Decoder, at: At<'_>) -> Option<SharedExpert> {
    let fields = decoder.open(at, &shapes::SHARED_EXPERT)?;
    let expert = expert(decoder, &fields);
    let gate = fields.get("gate").and_then(|at| decoder.name(at));
    Some(SharedExpert { expert: expert?, gate })
}

fn router(decoder: &mut Decoder, at: At<'_>) -> Option<Router> {
    let fields = decoder.open(at.clone(), &shapes::ROUTER)?;
    let score = fields.need(decoder, "score").and_then(|at| decoder.name(at));
    let weights = fields.get("weights").and_then(|at| decoder.name(at));
    if !fields.table.has("weights") && !only_softmax_of_selected(score.as_ref()) {
        let path = join(&at.path, "weights");
        let allowed: Vec<&str> = crate::names::RouterWeights::names().collect();
        let message = format!(
            "missing; it has no default, because it is the most often wrong value: {}",
            allowed.join(" or ")
        );
        decoder.faults.push(at.node.place.fault(path, message));
    }
    Some(Router {
        place: at.node.place.clone(),
        path: at.path.clone(),
        bias: fields.get("bias").and_then(|at| decoder.name(at)),
        input: fields.get("input").and_then(|at| decoder.name(at)),
        select: fields.get("select").and_then(|at| decoder.name(at)),
        select_bias: fields.get("select_bias").and_then(|at| decoder.name(at)),
        groups: fields.get("groups").and_then(|at| groups(decoder, at)),
        weights,
        scale: fields.get("scale").and_then(|at| decoder.number(at)),
        apply: fields.get("apply").and_then(|at| decoder.name(at)),
        top_k: fields.get("top_k").and_then(|at| decoder.number(at)),
        score: score?,
    })
}

/// Softmax over the chosen experts sums to one by itself.
fn only_softmax_of_selected(score: Option<&Name<crate::config::RouterScore>>) -> bool {
    let Some(Field { value: Choice::Given(BySource::Same((_, score))), .. }) = score else {
        return score.is_none();
    };
    *score == crate::config::RouterScore::SoftmaxOfSelected
}

fn groups(decoder: &mut Decoder, at: At<'_>) -> Option<Groups> {
    let fields = decoder.open(at, &shapes::GROUPS)?;
    let count = fields.need(decoder, "count").and_then(|at| decoder.number(at));
    let keep = fields.need(decoder, "keep").and_then(|at| decoder.number(at));
    let score = fields.need(decoder, "score").and_then(|at| decoder.name(at));
    Some(Groups { count: count?, keep: keep?, score: score? })
}
