//! `spec kinds [KIND]`: lists the kinds of components, or describes one.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::registry::Environment;
use menagerie::spec::KindDescription;
use menagerie::spec::kind::Family;
use menagerie_entries::{nearest, nearest_clause};
use serde_json::json;

/// List the kinds of components, or describe one of them
///
/// For a kind, prints its options with allowed values, defaults and meanings, the tensors that it requires with their
/// shapes, and the keys that it reads. A mistake in an option marked `logits` shows only in the logits.
#[derive(Args)]
pub(crate) struct KindsCommand {
    /// Name of a kind, e.g. attention, moe or rms
    kind: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A kind and the crate or plugin that registers it; `None` for a kind that is declared but not implemented.
#[derive(serde::Serialize)]
struct KindRow {
    #[serde(flatten)]
    kind: KindDescription,
    from: Option<&'static str>,
}

impl KindsCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        let components = installed.components();
        let kinds = components.kinds()?;
        let all: Vec<KindRow> = Family::ALL
            .into_iter()
            .flat_map(|family| kinds.of(family))
            .map(|kind| KindRow {
                kind: kind.describe(),
                from: components.get(kind).map(|one| one.registered_by),
            })
            .collect();
        let Some(name) = &self.kind else {
            return if self.json { output::json(&json!({ "kinds": all })) } else { listing(&all) };
        };
        let found: Vec<&KindRow> = all.iter().filter(|one| one.kind.name == name).collect();
        if found.is_empty() {
            let near = nearest_clause(nearest(name, all.iter().map(|one| one.kind.name)));
            return Err(Failure::Failed(format!("there is no kind `{name}`{near}"))
                .with_help("`menagerie spec kinds` lists them"));
        }
        if self.json {
            return output::json(&json!({ "kinds": found }));
        }
        found.into_iter().try_for_each(page)
    }
}

fn listing(kinds: &[KindRow]) -> Result<(), Failure> {
    let row = |one: &KindRow| {
        let kind = &one.kind;
        let built_in = if kind.built_in { "" } else { "not implemented: " };
        let meaning = kind.meaning.split(". ").next().unwrap_or_default().trim_end_matches('.');
        vec![kind.name.to_owned(), kind.family.to_owned(), format!("{built_in}{meaning}")]
    };
    output::table(&["kind", "family", "meaning"], &kinds.iter().map(row).collect::<Vec<_>>())
}

fn page(listed: &KindRow) -> Result<(), Failure> {
    let kind = &listed.kind;
    let known = if kind.built_in { "" } else { " (not implemented)" };
    output::line(&format!("{} {}{known}\n  {}", kind.family, kind.name, kind.meaning))?;
    if let Some(from) = listed.from {
        output::line(&format!("  from {from}"))?;
    }
    if !kind.options.is_empty() {
        output::line("\noptions")?;
    }
    for option in &kind.options {
        let default = match (option.required, option.default.as_str()) {
            (true, _) => "; required".to_owned(),
            (false, "") => String::new(),
            (false, "its own") => "; default: the defaults of its options".to_owned(),
            (false, default) => format!("; default: {default}"),
        };
        let logits = if option.guarded { " (logits)" } else { "" };
        output::line(&format!("  {}: {}{default}", option.name, option.accepts))?;
        output::line(&format!("      {}{logits}", option.meaning))?;
    }
    if !kind.tensors.is_empty() {
        output::line("\ntensors")?;
    }
    for tensor in &kind.tensors {
        let when = if tensor.when.is_empty() { String::new() } else { format!("; when {}", tensor.when) };
        let bias = tensor.bias.map(|rule| format!("; bias by `{rule}`")).unwrap_or_default();
        let dims = tensor.dims.join(", ");
        output::line(&format!("  {} [{dims}]{bias}{when}\n      {}", tensor.role, tensor.meaning))?;
    }
    if !kind.keys.is_empty() {
        output::line(&format!("\nalso reads {}", kind.keys.join(", ")))?;
    }
    Ok(())
}
