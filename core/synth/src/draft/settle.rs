//! What nothing in the file decides is as most known architectures have it: those of a like name above all, then those that
//! fit the file best.

use super::Candidate;
use super::collapse::collapsed;
use super::compose::{at, fit_of, stripped, transplanted};
use super::evidence::Evidence;
use super::fit::Fit;
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, MetadataValue, NoLookup, SpecSource, ValueOrigin, toml_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// From how like a name is on one that belongs to the family, and how many others it outvotes.
const LIKE: f64 = 0.5;
const FAMILY: f64 = 100.0;

/// From this cost on a spec says too little of a model to have a vote.
const HOPELESS: usize = 200;

/// What is left of a stranger's vote that stands for a key which the file does not have.
const UNSTATED: f64 = 0.1;

/// What the file's own word outvotes: everybody.
const STATED: f64 = 1e6;

/// What a converter's habit outvotes: every architecture that is no relative.
const HABIT: f64 = 50.0;

/// A known architecture's say.
struct Voter {
    document: Value,
    /// What it comes down to for this model, by dotted path.
    said: BTreeMap<String, String>,
    /// Paths of what its own files state and this one does not: it says little of such a file.
    unstated: BTreeSet<String>,
    weight: f64,
}

/// Guarded options of `document` that nothing in the file decides are as most of the candidates have them.
pub(super) fn settle(
    document: &mut Value,
    fit: &mut Fit,
    evidence: &Evidence,
    (candidates, kinds): (&[Candidate], &Kinds),
) {
    let voters: Vec<Voter> =
        candidates.iter().filter_map(|candidate| voter(candidate, evidence, kinds)).collect();
    let text = format!("schema = 1\n{}", toml_text(document));
    let source = SpecSource { name: "draft.toml".to_owned(), text };
    let Ok(spec) = ArchSpec::parse(&source, &NoLookup, kinds) else { return };
    for option in
        spec.options().into_iter().filter(|option| option.guarded && !option.path.ends_with(".when"))
    {
        let now = effective(&said(fit), &option.path);
        let Some(most) = elected(&option.path, (document, &now), &voters, evidence) else { continue };
        if most == now {
            continue;
        }
        let tried = voters
            .iter()
            .filter(|voter| effective(&voter.said, &option.path) == most)
            .filter_map(|voter| transplanted(&option.path, document, &voter.document));
        let better = tried.filter_map(|changed| fit_of(&changed, evidence, kinds).map(|fit| (changed, fit)));
        let cost = fit.cost();
        let as_wanted =
            |(_, new): &(Value, Fit)| new.cost() <= cost && effective(&said(new), &option.path) == most;
        if let Some(better) = better.take(TRIES).find(as_wanted) {
            (*document, *fit) = better;
        }
    }
}

/// How many ways to write what was elected are tried.
const TRIES: usize = 24;

fn voter(candidate: &Candidate, evidence: &Evidence, kinds: &Kinds) -> Option<Voter> {
    let cost = candidate.fit.cost();
    if cost >= HOPELESS {
        return None;
    }
    let document = collapsed(&stripped(&candidate.spec), evidence, kinds);
    let fit = fit_of(&document, evidence, kinds)?;
    let entries = fit.resolution.iter().flat_map(|resolution| &resolution.values);
    let unstated = entries
        .filter(|entry| matches!(entry.origin, ValueOrigin::SpecDefault { .. }))
        .map(|entry| entry.path.clone())
        .collect();
    let said = said(&fit);
    let family = if candidate.named >= LIKE { FAMILY } else { 0.0 };
    Some(Voter { document, said, unstated, weight: family + 1.0 })
}

/// What a spec comes down to where it has a say itself: by path, the values of all layers.
fn said(fit: &Fit) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for entry in fit.resolution.iter().flat_map(|resolution| &resolution.values) {
        values.entry(entry.path.clone()).or_default().insert(&entry.value);
    }
    let joined = |values: BTreeSet<&str>| values.into_iter().collect::<Vec<_>>().join(" | ");
    values.into_iter().map(|(path, values)| (path, joined(values))).collect()
}

/// A value, or whether a table is there at all; empty for nothing.
fn effective(said: &BTreeMap<String, String>, path: &str) -> String {
    let inside = format!("{path}.");
    let table = || said.range(inside.clone()..).next().is_some_and(|(path, _)| path.starts_with(&inside));
    match said.get(path) {
        Some(value) => value.clone(),
        None if table() => "there".to_owned(),
        None => String::new(),
    }
}

/// What most voters with the same components say at a path.
fn elected(
    path: &str,
    (document, now): (&Value, &str),
    voters: &[Voter],
    evidence: &Evidence,
) -> Option<String> {
    let mut votes: BTreeMap<String, f64> = BTreeMap::new();
    let own = components_of(document, path);
    let above = path.rsplit_once('.').map_or(path, |(above, _)| above);
    let has_table = |voter: &&Voter| !effective(&voter.said, above).is_empty();
    let same = voters.iter().filter(|voter| components_of(&voter.document, path) == own);
    for voter in same.filter(has_table) {
        let unstated = voter.weight < FAMILY && voter.unstated.contains(path);
        let weight = if unstated { UNSTATED } else { 1.0 };
        *votes.entry(effective(&voter.said, path)).or_default() += weight * voter.weight;
    }
    if let Some((habit, weight)) = habit(path, evidence) {
        *votes.entry(habit.to_owned()).or_default() += weight;
    }
    let needed = votes.get(now).copied().unwrap_or(0.0);
    let most = votes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    most.filter(|(_, votes)| *votes > needed).map(|(most, _)| most)
}

/// The kinds of the components that a path leads into.
fn components_of<'d>(document: &'d Value, path: &str) -> Vec<Option<&'d Value>> {
    let tables = std::iter::successors(path.rsplit_once('.').map(|(above, _)| above), |path| {
        path.rsplit_once('.').map(|(above, _)| above)
    });
    tables.map(|table| at(document, table).and_then(|table| table.get("kind"))).collect()
}

/// What a file's other keys tell of an option. `attention.causal` says which way a model looks. The converters' class that
/// reorders the rows of q and k into adjacent pairs states the size of the vocabulary and how many dims rotate, and knows no
/// norm of q and k.
fn habit(path: &str, evidence: &Evidence) -> Option<(&'static str, f64)> {
    let states = |key: &str| evidence.keys().contains_key(key);
    let tensor = |role: &str| evidence.tensors().keys().any(|name| name.contains(role));
    if path.ends_with("mask") {
        return match evidence.keys().get("attention.causal") {
            Some(MetadataValue::Bool(false)) => Some(("bidirectional", STATED)),
            _ => Some(("causal", STATED)),
        };
    }
    let reorders = states("vocab_size")
        && states("rope.dimension_count")
        && states("attention.layer_norm_rms_epsilon")
        && !tensor("attn_q_norm");
    path.ends_with("rope.pairs").then_some((if reorders { "adjacent" } else { "halves" }, HABIT))
}
