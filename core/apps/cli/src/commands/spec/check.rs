//! `spec check SPEC`: every fault of a spec, and a tiny model of it run.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::plugins::plugins;
use crate::arguments::spec_reference::{SpecMeant, spec_needed};
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

/// Report every fault of a spec at once, then make a tiny random model of it and run it
///
/// Faults come in the order of lines, each with a caret. Of a spec without faults a model of four small layers with random
/// weights is made from the spec alone and run: at once, in chunks, and token by token from its cache, which must give the
/// same. What the spec says of a real model shows with one: `check MODEL --spec FILE`.
#[derive(Args)]
pub(crate) struct SpecCheckCommand {
    /// Id of an architecture, or a spec's file
    spec: NameOrPath,
    /// A key of the tiny model, where the spec needs another than is made up (repeatable): KEY=VALUE, KEY=[1,0,1,0]
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
        check(&self.spec.to_string(), &spec_needed(&self.spec, &self.specs, installed)?, &keys, self.json)
    }
}

/// What is wrong with the tiny model of a spec.
fn wrong(fault: &str) -> Finding {
    Finding { message: format!("a tiny random model: {fault}"), ..Finding::default() }
}

/// Checks a spec and says what was found.
pub(crate) fn check(
    name: &str,
    meant: &SpecMeant,
    keys: &BTreeMap<String, MetadataValue>,
    as_json: bool,
) -> Result<(), Failure> {
    let (mut faults, mut notes, mut tiny) = (Vec::new(), Vec::new(), None);
    match meant.entry.spec() {
        Err(error) => faults = report::findings(&error.to_string()),
        Ok(spec) => {
            notes.extend(spec.warnings().iter().map(ToString::to_string));
            notes.extend(spec.misspelt_keys().into_iter().map(|(key, known)| {
                format!("no standard key is called `{key}`, which this spec reads; did you mean `{known}`?")
            }));
            let _at_once = interrupt::at_once()?;
            let missteps = || plugins(&meant.environment).iter().map(|plugin| plugin.missteps()).sum::<u32>();
            let before = missteps();
            match tiny_run(meant, keys)? {
                Ok(run) => tiny = Some(run),
                // No key of the file could have helped.
                Err(why) if missteps() > before => {
                    let lines = why.lines().map(|line| line.trim().trim_start_matches("error: "));
                    faults.push(wrong(&lines.collect::<Vec<_>>().join("; ")));
                }
                Err(why) => notes.push(format!(
                    "no tiny model of it was made: {}; give what it needs as --key KEY=VALUE, or check it with a model",
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
        report::line(&format!("{name}: {}", output::counted(faults.len(), "fault")));
        return Err(Failure::Reported);
    }
    if let Some(run) = &tiny {
        output::line(&format!("{name}: {}", run.line()))?;
    }
    let named = if name.ends_with(".toml") { format!(" --spec {name}") } else { String::new() };
    output::line(&format!(
        "{name}: good; whether the keys it reads exist is seen with a model: menagerie check MODEL{named}"
    ))
}
