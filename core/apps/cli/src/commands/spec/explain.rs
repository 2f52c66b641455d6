//! `spec explain SPEC`: describes an architecture in words and as a diagram.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::spec_reference::require_spec;
use crate::arguments::specs::SpecArguments;
use crate::failure::Failure;
use crate::listing::block_svg::svg;
use crate::output;
use crate::output::output_file::OutputFile;
use clap::Args;
use menagerie::registry::Environment;
use menagerie::spec::{ArchSpec, Outline, OutlineStep, StatedOption};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Describe an architecture in words, from embedding to logits
///
/// Prints the computation step by step, then every option that the spec states, with its meaning. A value that is the name
/// of a key (attention.sliding_window) is read from the model file.
#[derive(Args)]
pub(crate) struct ExplainCommand {
    /// Id of an architecture, or a spec file
    spec: NameOrPath,
    /// Write a diagram of one block as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Replace the file of the diagram if it exists
    #[arg(long, requires = "svg")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

impl ExplainCommand {
    pub(crate) fn run(self, installed: &Environment) -> Result<(), Failure> {
        let meant = require_spec(&self.spec, &self.specs, installed)?;
        let spec = meant.spec()?;
        let outline = Outline::of(&spec);
        if let Some(target) = &self.svg {
            let mut file = OutputFile::create(target, self.force, &[])?;
            file.write_all(svg(&title(&spec), &outline).as_bytes())?;
            file.commit()?;
        }
        let stated: Vec<StatedOption> =
            spec.options().into_iter().filter(|option| option.value.is_some()).collect();
        if self.json {
            return output::json(&json!({ "id": spec.id(), "steps": outline, "options": stated }));
        }
        output::line(&title(&spec))?;
        if !spec.extends.is_empty() {
            output::line(&format!("a variation of {}", spec.extends.join(", ")))?;
        }
        steps(&outline)?;
        options(&stated)?;
        let checks =
            spec.document().get("check").and_then(|checks| checks.as_object()).cloned().unwrap_or_default();
        for (condition, why) in checks {
            output::line(&format!("requires {condition}\n      {}", why.as_str().unwrap_or_default()))?;
        }
        Ok(())
    }
}

fn title(spec: &ArchSpec) -> String {
    if spec.summary.is_empty() { spec.id().to_owned() } else { format!("{}: {}", spec.id(), spec.summary) }
}

fn steps(outline: &Outline) -> Result<(), Failure> {
    output::line("\ncomputation")?;
    print(&outline.embedding, 2)?;
    output::line("  in each block")?;
    for branch in &outline.branches {
        let reads = if branch.parallel { "the input of the block" } else { "the stream" };
        output::line(&format!("    {} (input: {reads})", branch.name.replace('_', "-")))?;
        print(&branch.steps, 6)?;
        let scale = branch.scale.as_ref().map(|scale| format!(", times {scale}")).unwrap_or_default();
        output::line(&format!("      added to the stream{scale}"))?;
        print(&branch.after, 6)?;
    }
    print(&outline.output, 2)
}

fn print(steps: &[OutlineStep], indent: usize) -> Result<(), Failure> {
    for OutlineStep { title, details, .. } in steps {
        let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join("; ")) };
        output::line(&format!("{:indent$}{title}{details}", ""))?;
    }
    Ok(())
}

fn options(stated: &[StatedOption]) -> Result<(), Failure> {
    output::line("\noptions of the spec")?;
    for option in stated {
        let StatedOption { path, meaning, guarded, .. } = option;
        let value = option.plain().filter(|value| !value.is_empty());
        let value = value.map(|value| format!(" = {value}")).unwrap_or_default();
        let logits = if *guarded { " A mistake here shows only in the logits." } else { "" };
        output::line(&format!("  {path}{value}\n      {meaning}{logits}"))?;
    }
    Ok(())
}
