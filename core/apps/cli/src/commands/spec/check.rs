//! `spec check SPEC`: reports all errors of a spec, and runs a tiny model of it.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::plugins::plugins;
use crate::arguments::spec_reference::{SpecSelection, require_spec};
use crate::arguments::specs::SpecArguments;
use crate::commands::synth::parse_value;
use crate::failure::Failure;
use crate::reference::tiny_run::{TinyRun, tiny_run};
use crate::screen::report;
use crate::screen::report::Finding;
use crate::{interrupt, output};
use clap::Args;
use menagerie::registry::Environment;
use menagerie::spec::MetadataValue;
use serde_json::json;
use std::collections::BTreeMap;

/// Report all errors of a spec at once; for a valid spec, run a tiny random model of it
///
/// Errors are sorted by line. For a spec without errors, a model of four small layers with random weights is created from
/// the spec alone and run in one step, in chunks, and token by token with the cache, which must all produce the same
/// logits. To check a spec against a real model, use `check MODEL --spec FILE`.
#[derive(Args)]
pub(crate) struct SpecCheckCommand {
    /// Id of an architecture, or a spec file
    spec: NameOrPath,
    /// Set a key of the tiny model instead of its invented value (repeatable): KEY=VALUE, KEY=[1,0,1,0]
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    key: Vec<(String, String)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    pair.map(|(key, value)| (key.to_owned(), value.to_owned())).ok_or_else(|| "expected KEY=VALUE".to_owned())
}

impl SpecCheckCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        let keys = self.key.iter().map(|(key, value)| (key.clone(), parse_value(value))).collect();
        check(&self.spec.to_string(), &require_spec(&self.spec, &self.specs, installed)?, &keys, self.json)
    }
}

/// An error of the tiny model of a spec.
fn wrong(fault: &str) -> Finding {
    Finding { message: format!("a tiny random model: {fault}"), ..Finding::default() }
}

/// Checks a spec and prints the result.
pub(crate) fn check(
    name: &str,
    meant: &SpecSelection,
    keys: &BTreeMap<String, MetadataValue>,
    as_json: bool,
) -> Result<(), Failure> {
    let (mut faults, mut notes, mut tiny) = (Vec::new(), Vec::new(), None);
    match meant.entry.spec() {
        Err(error) => faults = report::findings(&error.to_string()),
        Ok(spec) => {
            notes.extend(spec.warnings.iter().map(ToString::to_string));
            notes.extend(spec.misspelt_keys().into_iter().map(|(key, known)| {
                format!("this spec reads `{key}`, which is not a standard key; did you mean `{known}`?")
            }));
            let _at_once = interrupt::at_once()?;
            let missteps = || plugins(&meant.environment).iter().map(|plugin| plugin.missteps()).sum::<u32>();
            let before = missteps();
            match tiny_run(meant, keys)? {
                Ok(run) => tiny = Some(run),
                // The plugin failed: another value of a key cannot help.
                Err(why) if missteps() > before => {
                    let lines = why.lines().map(|line| line.trim().trim_start_matches("error: "));
                    faults.push(wrong(&lines.collect::<Vec<_>>().join("; ")));
                }
                Err(why) => notes.push(format!(
                    "no tiny model was created: {}; give the keys that it needs with --key KEY=VALUE, or check the spec with a model",
                    why.lines().map(str::trim).collect::<Vec<_>>().join(" ")
                )),
            }
        }
    }
    faults.extend(tiny.iter().flat_map(|run: &TinyRun| &run.faults).map(|fault| wrong(fault)));
    if as_json {
        let good = faults.is_empty();
        output::json(&json!({ "spec": name, "good": good, "faults": faults, "notes": notes, "tiny": tiny }))?;
        return if good { Ok(()) } else { Err(Failure::Reported) };
    }
    for note in &notes {
        output::note(note)?;
    }
    if !faults.is_empty() {
        report::findings_as_errors(&faults);
        report::line(&format!("{name}: {}", output::counted(faults.len(), "error")));
        return Err(Failure::Reported);
    }
    if let Some(run) = &tiny {
        output::line(&format!("{name}: {}", run.line()))?;
    }
    let named = if name.ends_with(".toml") { format!(" --spec {name}") } else { String::new() };
    output::line(&format!(
        "{name}: ok; to see whether a model has the keys that it reads, run: menagerie check MODEL{named}"
    ))
}
