//! `list`: what can be run.

use crate::failure::Failure;
use crate::model_arguments::SpecArguments;
use crate::output;
use clap::Args;
use menagerie::registry::Entry;
use serde::Serialize;

/// List the architectures that can be run, and where each comes from
///
/// An architecture is a TOML file: put one into --spec-dir, a folder of MENAGERIE_SPEC_DIR, menagerie/specs in the data
/// folder, or ./menagerie.d, and it is listed at the next call.
#[derive(Args)]
pub(crate) struct ListCommand {
    #[command(flatten)]
    specs: SpecArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One architecture, as listed.
#[derive(Serialize)]
struct Listed {
    id: String,
    names: Vec<String>,
    family: String,
    kind: &'static str,
    formats: Vec<&'static str>,
    supports: Vec<String>,
    summary: String,
    reference: Option<String>,
    origin: String,
    shadows: Option<String>,
    error: Option<String>,
}

impl Listed {
    fn new(entry: &Entry) -> Self {
        let spec = entry.spec.as_ref().ok();
        Self {
            id: entry.id.clone(),
            names: spec.map(|spec| spec.gguf_names().to_vec()).unwrap_or_default(),
            family: spec.and_then(|spec| spec.extends().last().cloned()).unwrap_or_else(|| entry.id.clone()),
            kind: "language model",
            formats: vec!["gguf"],
            supports: spec.map(|spec| spec.features()).unwrap_or_default(),
            summary: spec.map(|spec| spec.summary().to_owned()).unwrap_or_default(),
            reference: spec.and_then(|spec| spec.truth()).map(|truth| truth.source.clone()),
            origin: entry.origin.to_string(),
            shadows: entry.shadows.as_ref().map(ToString::to_string),
            error: entry.spec.as_ref().err().map(ToString::to_string),
        }
    }
}

impl ListCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let registry = self.specs.registry()?;
        let listed: Vec<Listed> = registry.entries().iter().map(Listed::new).collect();
        if self.json {
            return output::json(&listed);
        }
        let (good, faulty): (Vec<&Listed>, Vec<&Listed>) = listed.iter().partition(|one| one.error.is_none());
        let row = |one: &&Listed| {
            vec![
                one.id.clone(),
                one.family.clone(),
                one.kind.to_owned(),
                one.formats.join(", "),
                one.supports.join(", "),
                one.origin.clone(),
            ]
        };
        let rows: Vec<Vec<String>> = good.iter().map(row).collect();
        output::table(&["id", "family", "kind", "formats", "supports", "origin"], &rows)?;
        for one in good.iter().filter(|one| one.shadows.is_some()) {
            output::line(&format!(
                "note: {} shadows {}",
                one.origin,
                one.shadows.as_deref().unwrap_or_default()
            ))?;
        }
        for one in faulty {
            output::line(&format!("cannot be used: {}", one.error.as_deref().unwrap_or_default()))?;
        }
        Ok(())
    }
}
