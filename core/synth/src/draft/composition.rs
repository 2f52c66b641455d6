//! [`compose`]: a spec from the nearest architecture, with sections of other architectures where they fit better.

use super::evidence::Evidence;
use super::fit::Fit;
use super::single_cases::collapsed;
use super::votes::settle;
use super::{ArchCandidate, best};
use menagerie_spec::kind::Kinds;
use menagerie_spec::{ArchSpec, NoLookup, SpecSource, glob_matches, toml_text, toml_value};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The sections that are exchanged between architectures: first their single options, then whole sections.
const SECTIONS: [&str; 8] =
    ["gguf.tensors", "block", "mixer", "feed_forward", "norm", "embedding", "output", "layers"];

/// Tables whose options are exchanged separately too.
const DEEPER: [&str; 3] = ["mixer.rope", "mixer.rope.scaling", "feed_forward.router"];

/// Most rounds over all sections.
const ROUNDS: usize = 3;

/// A composed spec.
pub(crate) struct Composition {
    /// The whole spec.
    pub(crate) document: Value,
    /// The known architecture that it is a variant of.
    pub(crate) base: Arc<ArchSpec>,
    /// Its fit.
    pub(crate) fit: Fit,
}

/// The first of the sorted candidates, with sections of others where they fit better.
pub(crate) fn compose(evidence: &Evidence, candidates: &[ArchCandidate], kinds: &Kinds) -> Composition {
    let base = Arc::clone(&candidates[0].spec);
    let mut document = stripped(&base);
    let mut fit = candidates[0].fit.clone();
    let failed_checks = std::mem::take(&mut fit.failed_checks);
    let donors: Vec<Value> =
        candidates.iter().flat_map(|candidate| with_single_cases(stripped(&candidate.spec))).collect();
    let units = units(&donors);
    for _ in 0..ROUNDS {
        let before = fit.cost();
        for unit in &units {
            if fit.cost() == 0 {
                break;
            }
            let tried = transplants(unit, &document, &donors).into_iter().filter_map(|changed| {
                let fit = fit_of(&changed, evidence, kinds)?;
                Some((changed, fit))
            });
            let better = best(tried, |(_, fit)| fit.cost()).filter(|(_, new)| new.cost() < fit.cost());
            if let Some(better) = better {
                (document, fit) = better;
            }
        }
        if fit.cost() == 0 || fit.cost() == before {
            break;
        }
    }
    if let Some((known, better)) = with_known_reasons(&document, &fit, &donors)
        .and_then(|changed| fit_of(&changed, evidence, kinds).map(|fit| (changed, fit)))
    {
        (document, fit) = (known, better);
    }
    document = collapsed(&document, evidence, kinds);
    if let Some(same) = fit_of(&document, evidence, kinds) {
        fit = same;
    }
    settle(&mut document, &mut fit, evidence, (candidates, kinds));
    // The checks of the nearest architecture are kept if they hold.
    if let Some(checks) = base.document().get("check") {
        let mut checked = document.clone();
        checked["check"] = checks.clone();
        if let Some(new) = fit_of(&checked, evidence, kinds).filter(|new| new.cost() <= fit.cost()) {
            (document, fit) = (checked, new);
        }
    }
    fit.failed_checks = if document.get("check").is_some() { Vec::new() } else { failed_checks };
    Composition { document, base, fit }
}

/// The fit of a known architecture. If only its checks fail, it is the fit without them.
pub(crate) fn fit_beside_checks(spec: &ArchSpec, evidence: &Evidence, kinds: &Kinds) -> Fit {
    let fit = Fit::of(spec, evidence);
    if !fit.is_only_refused() {
        return fit;
    }
    match fit_of(&stripped(spec), evidence, kinds) {
        Some(without) => Fit { failed_checks: fit.faults, ..without },
        None => fit,
    }
}

/// The document of a spec without its checks, without sections that do not concern GGUF files of the draft, and without
/// the head for further tokens, which changes no logits.
pub(super) fn stripped(spec: &ArchSpec) -> Value {
    let mut document = spec.document();
    if let Some(table) = document.as_object_mut() {
        for section in ["hf", "adapter", "tokenizer", "chat", "provenance", "check", "nextn"] {
            table.remove(section);
        }
        table.insert("architecture".to_owned(), json!({ "id": "draft" }));
    }
    document
}

/// The document, and its variants with a single case of each component.
fn with_single_cases(document: Value) -> Vec<Value> {
    let mut forms = vec![document.clone()];
    for section in ["mixer", "feed_forward"] {
        let Some(cases) = document.get(section).and_then(Value::as_object) else { continue };
        for case in cases.values().filter(|_| !cases.contains_key("kind")) {
            let mut form = document.clone();
            form[section] = case.clone();
            if let Some(table) = form[section].as_object_mut() {
                table.remove("when");
            }
            forms.push(form);
        }
    }
    forms
}

/// The fit of a document, if it is a valid spec.
pub(crate) fn fit_of(document: &Value, evidence: &Evidence, kinds: &Kinds) -> Option<Fit> {
    let text = format!("schema = 1\n{}", toml_text(document));
    let source = SpecSource { name: "draft.toml".to_owned(), text };
    let spec = ArchSpec::parse(&source, &NoLookup, kinds);
    let spec = spec.ok()?;
    Some(Fit::of(&spec, evidence))
}

/// The dotted paths that are exchanged as a unit: options first, sections last.
fn units(donors: &[Value]) -> Vec<String> {
    let mut units: Vec<String> = Vec::new();
    for table in DEEPER.iter().rev().chain(&SECTIONS) {
        for donor in donors {
            let keys = at(donor, table).and_then(Value::as_object).into_iter().flat_map(Map::keys);
            let paths = keys.map(|key| format!("{table}.{key}"));
            let new: Vec<String> =
                paths.filter(|path| !units.contains(path) && !path.ends_with(".kind")).collect();
            units.extend(new);
        }
    }
    units.extend(SECTIONS.map(str::to_owned));
    units
}

/// The value at a dotted path.
pub(super) fn at<'d>(document: &'d Value, path: &str) -> Option<&'d Value> {
    path.split('.').try_fold(document, |at, part| at.get(part))
}

/// Sets the value at a path, or returns `None` if its table does not exist.
fn put(document: &mut Map<String, Value>, path: &str, value: Option<&Value>) -> Option<()> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match (rest, value) {
        // Only the table of tensor names is created.
        (Some(rest), Some(_)) if first == "gguf" => {
            put(document.entry(first).or_insert_with(|| json!({})).as_object_mut()?, rest, value)
        }
        (Some(rest), _) => put(document.get_mut(first)?.as_object_mut()?, rest, value),
        (None, Some(value)) => {
            document.insert(first.to_owned(), value.clone());
            Some(())
        }
        (None, None) => document.remove(first).map(drop),
    }
}

/// The document with the unit of each donor, each form once, the most frequent first.
fn transplants(unit: &str, document: &Value, donors: &[Value]) -> Vec<Value> {
    let text = |document: &Value| at(document, unit).map(toml_value).unwrap_or_default();
    let own = text(document);
    let mut forms: Vec<(String, usize, &Value)> = Vec::new();
    for donor in donors {
        let form = text(donor);
        match forms.iter_mut().find(|(known, ..)| *known == form) {
            Some((_, count, _)) => *count += 1,
            None if form != own => forms.push((form, 1, donor)),
            None => {}
        }
    }
    forms.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
    forms.into_iter().filter_map(|(_, _, donor)| transplanted(unit, document, donor)).collect()
}

/// The document with the unit of a donor and the names that it uses.
pub(super) fn transplanted(unit: &str, document: &Value, donor: &Value) -> Option<Value> {
    let mut table: Map<String, Value> = document.as_object()?.clone();
    let piece = at(donor, unit);
    put(&mut table, unit, piece)?;
    let lets = |document: &Value| document.get("let").and_then(Value::as_object).cloned().unwrap_or_default();
    let (mut names, theirs) = (lets(document), lets(donor));
    let used = toml_value(&json!({ "piece": piece, "let": theirs }));
    for (name, value) in theirs {
        let is_used = used.matches(name.as_str()).count() > 1;
        if !is_used || names.get(&name) == Some(&value) {
            continue;
        }
        // The same name with another value would change the rest of the document.
        if names.contains_key(&name) && mentions(&table, unit, &name) {
            return None;
        }
        names.insert(name, value);
    }
    // Unused names would still read keys.
    let rest = toml_value(&Value::Object(table.iter().filter(|(key, _)| *key != "let").map(owned).collect()));
    let all = toml_value(&Value::Object(names.clone()));
    names.retain(|name, _| rest.contains(name.as_str()) || all.matches(name.as_str()).count() > 1);
    table.remove("let");
    if !names.is_empty() {
        table.insert("let".to_owned(), Value::Object(names));
    }
    Some(Value::Object(table))
}

fn owned((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

/// Whether the rest of the document uses a name.
fn mentions(table: &Map<String, Value>, unit: &str, name: &str) -> bool {
    let mut rest = table.clone();
    put(&mut rest, unit, None);
    rest.remove("let");
    toml_value(&Value::Object(rest)).contains(name)
}

/// The document that ignores unread keys which other specs ignore, with their reasons.
fn with_known_reasons(document: &Value, fit: &Fit, donors: &[Value]) -> Option<Value> {
    let mut found = Map::new();
    for key in &fit.unread {
        let reasons = donors.iter().filter_map(|donor| donor.pointer("/gguf/ignore_keys")?.as_object());
        let known = reasons.flatten().find(|(glob, _)| glob_matches(glob, key));
        found.extend(known.map(|(_, reason)| (key.clone(), reason.clone())));
    }
    if found.is_empty() {
        return None;
    }
    let mut document = document.clone();
    let gguf = document.as_object_mut()?.entry("gguf").or_insert_with(|| json!({}));
    let ignored = gguf.as_object_mut()?.entry("ignore_keys").or_insert_with(|| json!({}));
    ignored.as_object_mut()?.extend(found);
    Some(document)
}
