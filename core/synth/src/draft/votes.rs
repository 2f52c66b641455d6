//! [`settle`]: chooses values that the file does not determine by a vote of known architectures. Those with a similar
//! name have the most weight, then those that fit best.

use super::ArchCandidate;
use super::composition::{at, fit_of, stripped, transplanted};
use super::evidence::Evidence;
use super::fit::Fit;
use super::single_cases::collapsed;
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, MetadataValue, NoLookup, SpecSource, ValueOrigin, toml_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The similarity of names within a family, and the weight of its members.
const LIKE: f64 = 0.5;
const FAMILY: f64 = 100.0;

/// The cost from which a spec has no vote.
const HOPELESS: usize = 200;

/// The factor for votes outside the family about a value whose key the file lacks.
const UNSTATED: f64 = 0.1;

/// The weight of a value that the file states.
const STATED: f64 = 1e6;

/// The weight of a converter's habit: more than all architectures outside the family.
const HABIT: f64 = 50.0;

/// A known architecture with a vote.
struct ArchVoter {
    document: Value,
    /// Its values for this model, by dotted path.
    said: BTreeMap<String, String>,
    /// Paths whose keys its own files state, but this one does not.
    unstated: BTreeSet<String>,
    weight: f64,
}

/// Sets the guarded options of `document` that the file does not determine to the values of most candidates.
pub(super) fn settle(
    document: &mut Value,
    fit: &mut Fit,
    evidence: &Evidence,
    (candidates, kinds): (&[ArchCandidate], &Kinds),
) {
    let voters: Vec<ArchVoter> =
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

/// Most attempts to write an elected value.
const TRIES: usize = 24;

fn voter(candidate: &ArchCandidate, evidence: &Evidence, kinds: &Kinds) -> Option<ArchVoter> {
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
    Some(ArchVoter { document, said, unstated, weight: family + 1.0 })
}

/// The values of all layers by path.
fn said(fit: &Fit) -> BTreeMap<String, String> {
    let mut values: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for entry in fit.resolution.iter().flat_map(|resolution| &resolution.values) {
        values.entry(entry.path.clone()).or_default().insert(&entry.value);
    }
    let joined = |values: BTreeSet<&str>| values.into_iter().collect::<Vec<_>>().join(" | ");
    values.into_iter().map(|(path, values)| (path, joined(values))).collect()
}

/// A value, or "there" for a table, or an empty text.
fn effective(said: &BTreeMap<String, String>, path: &str) -> String {
    let inside = format!("{path}.");
    let table = || said.range(inside.clone()..).next().is_some_and(|(path, _)| path.starts_with(&inside));
    match said.get(path) {
        Some(value) => value.clone(),
        None if table() => "there".to_owned(),
        None => String::new(),
    }
}

/// The value of most voters with the same components.
fn elected(
    path: &str,
    (document, now): (&Value, &str),
    voters: &[ArchVoter],
    evidence: &Evidence,
) -> Option<String> {
    let mut votes: BTreeMap<String, f64> = BTreeMap::new();
    let own = components_of(document, path);
    let above = path.rsplit_once('.').map_or(path, |(above, _)| above);
    let has_table = |voter: &&ArchVoter| !effective(&voter.said, above).is_empty();
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

/// The kinds of the components on a path.
fn components_of<'d>(document: &'d Value, path: &str) -> Vec<Option<&'d Value>> {
    let tables = std::iter::successors(path.rsplit_once('.').map(|(above, _)| above), |path| {
        path.rsplit_once('.').map(|(above, _)| above)
    });
    tables.map(|table| at(document, table).and_then(|table| table.get("kind"))).collect()
}

/// The value that other keys of a file indicate. `attention.causal` indicates the mask. The class of converters that
/// reorders the rows of q and k into adjacent pairs writes the size of the vocabulary and the number of rotated
/// dimensions, and does not support norms of q and k.
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
