//! `check MODEL|ARCHITECTURE|SPEC`: reports all errors at once, and compares logits with a reference.

use crate::arguments::model::ModelArguments;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::opening::ModelOpening;
use crate::arguments::spec_reference::find_spec;
use crate::chat::answer;
use crate::commands::spec;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::listing::adapter_listing;
use crate::reference::against::SpecComparison;
use crate::reference::comparison;
use crate::reference::comparison::{Comparison, SkippedTensor};
use crate::screen::report;
use crate::screen::report::Finding;
use crate::{interrupt, output};
use clap::Args;
use menagerie::engine::TextPipeline;
use menagerie::open::{LoadedModel, ResolvedFile};
use menagerie::registry::{Environment, Origin};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Default of the largest difference that passes: twice the noise between two f32 implementations.
const TOLERANCE: f32 = 1e-4;

/// Report all errors of a model, an architecture or a spec at once
///
/// A spec (a file, or the id of an architecture) is checked as by `spec check`. For a model, its keys and tensors are
/// checked against its spec, and its tokenizer and chat template are checked too.
///
/// With --reference, its logits are compared with those in a safetensors file, which `menagerie logits` or the script
/// scripts/make-reference can write. The file has `tokens_NAME` i64 [T] and `logits_NAME` f32 [T, V]; or only the rows of
/// the tokens listed in `positions_NAME` i64; or `tokens_X_greedy` with the logits that each of them was picked from, as a
/// continuation of `tokens_X` (`tokens_prompt` without X). `l_out-3_NAME`, `attn_out-3_NAME` and `ffn_out-3_NAME`
/// f32 [T, D] are values of layer 3; the first layer that differs is reported. Tensors that cannot be compared are listed.
#[derive(Args)]
pub(crate) struct CheckCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// File with reference logits and layer values to compare with
    #[arg(long, value_name = "FILE")]
    reference: Option<PathBuf>,
    /// Compare the model's spec with another spec on this file: the id of an architecture, or a spec file
    #[arg(long, value_name = "ID|FILE")]
    against: Option<NameOrPath>,
    /// Largest difference between logits that passes
    #[arg(long, value_name = "X", default_value_t = TOLERANCE, requires = "reference", value_parser = tolerance)]
    tolerance: f32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The result of a check.
#[derive(Default)]
struct CheckResult {
    /// The spec or the model as it was typed.
    what: String,
    architecture: Option<String>,
    faults: Vec<Finding>,
    notes: Vec<String>,
    tokenizer: Option<String>,
    chat: Option<String>,
    comparison: Option<Comparison>,
    against: Option<SpecComparison>,
}

fn tolerance(text: &str) -> Result<f32, String> {
    let value: f32 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if value.is_finite() && value >= 0.0 { Ok(value) } else { Err("expected a number from 0".to_owned()) }
}

impl Runnable for CheckCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let name = self.model.model.clone();
        if adapter_listing::printed(name.path(), self.json)? {
            return Ok(());
        }
        if let Some(meant) = find_spec(&name, &self.model.specs, installed)? {
            return spec::check(&name.to_string(), &meant, &BTreeMap::new(), self.json);
        }
        let found = self.model_found(installed)?;
        let compared = found.comparison.as_ref().is_none_or(Comparison::passed);
        let good =
            found.faults.is_empty() && compared && found.against.as_ref().is_none_or(SpecComparison::is_same);
        if self.json {
            output::json(&self.as_json(&found, good))?;
            return if good { Ok(()) } else { Err(Failure::Reported) };
        }
        self.print(&found)?;
        if good { Ok(()) } else { Err(Failure::Reported) }
    }

    fn tries_plugins(&self) -> bool {
        true
    }
}

impl CheckCommand {
    /// Checks a model; errors of opening it are part of the result.
    fn model_found(&self, installed: &Environment) -> Result<CheckResult, Failure> {
        let mut found = CheckResult { what: self.model.model.to_string(), ..CheckResult::default() };
        let opening = self.model.opening(installed).map(ModelOpening::without_notices);
        let opened = opening.and_then(|opening| Ok((opening.open_text()?, opening)));
        let (mut pipeline, opening) = match opened {
            Ok(opened) => opened,
            Err(Failure::Failed(message)) => {
                found.faults = report::findings(&message);
                return Ok(found);
            }
            Err(failure) => return Err(failure),
        };
        found.architecture = Some(pipeline.architecture().to_owned());
        found.notes = pipeline.notices().iter().map(ToString::to_string).collect();
        found.notes.extend(unused(pipeline.resolved()));
        self.text_found(&pipeline, &mut found);
        if let Some(file) = &self.reference {
            // Nothing is lost if Ctrl-C ends the process at once.
            let _at_once = interrupt::at_once()?;
            found.comparison = Some(comparison::with_reference(&mut pipeline, file, self.tolerance)?);
        }
        if let Some(other) = &self.against {
            let _at_once = interrupt::at_once()?;
            let tokens = match &self.reference {
                Some(file) => comparison::tokens_of(file)?,
                None => Vec::new(),
            };
            found.against = Some(SpecComparison::of(&pipeline, &opening, other, tokens, installed)?);
        }
        Ok(found)
    }

    /// Checks tokenizer and chat template. A base model without a chat template gets a note, not an error.
    fn text_found(&self, pipeline: &LoadedModel<TextPipeline>, found: &mut CheckResult) {
        let fault = |message: String| Finding { message, ..Finding::default() };
        if let Err(missing) = pipeline.tokenizer().map(drop) {
            found.tokenizer = Some(missing.to_string());
            found.faults.push(fault(missing.to_string()));
            return;
        }
        if let Err(missing) = pipeline.chat_format().map(drop) {
            found.chat = Some(missing.to_string());
            match answer::has_template(pipeline) {
                true => found.faults.push(fault(missing.to_string())),
                false => found.notes.push(missing.to_string()),
            }
        }
    }

    fn print(&self, found: &CheckResult) -> Result<(), Failure> {
        for note in &found.notes {
            output::note(note)?;
        }
        if !found.faults.is_empty() {
            report::findings_as_errors(&found.faults);
            report::line(&format!("{}: {}", found.what, output::counted(found.faults.len(), "error")));
            return Ok(());
        }
        if let Some(architecture) = &found.architecture {
            output::line(&format!("{}: keys and tensors match {architecture}", found.what))?;
        }
        if let Some(comparison) = &found.comparison {
            print_comparison(comparison)?;
        }
        found.against.as_ref().map_or(Ok(()), SpecComparison::print)
    }

    fn as_json(&self, found: &CheckResult, good: bool) -> Value {
        json!({
            "model": found.what,
            "good": good,
            "architecture": found.architecture,
            "faults": found.faults,
            "notes": found.notes,
            "tokenizer_fault": found.tokenizer,
            "chat_template_fault": found.chat,
            "compared": found.comparison.as_ref().map_or(&[][..], |comparison| &comparison.compared),
            "left_out": found.comparison.as_ref().map_or(&[][..], |comparison| &comparison.left_out),
            "against": found.against,
            "tolerance": self.reference.is_some().then_some(self.tolerance),
        })
    }
}

/// Prints one line for each tensor, compared or not, then the first layer that differs.
fn print_comparison(comparison: &Comparison) -> Result<(), Failure> {
    for one in &comparison.compared {
        output::line(&one.line())?;
    }
    for SkippedTensor { name, why } in &comparison.left_out {
        output::line(&format!("{name}: not compared: {why}"))?;
    }
    if let Some(first) = comparison.first_layer() {
        output::line(&format!("the first layer values that differ: {}", first.name))?;
    }
    let bad = comparison.compared.iter().filter(|one| !one.passed && one.name.starts_with("logits"));
    let bad: Vec<&str> = bad.map(|one| one.name.as_str()).collect();
    if !bad.is_empty() {
        report::error(&format!("logits differ from the reference: {}", bad.join(", ")));
    }
    Ok(())
}

/// Notes about keys without effect and, for a spec that is not built in, about ignored keys that this file does not have.
fn unused(resolved: &ResolvedFile) -> Vec<String> {
    let coverage = &resolved.resolution.coverage;
    let id = resolved.spec.id();
    let idle = coverage.without_effect.iter();
    let idle = idle.map(|key| format!("key {key} is read by spec {id}, but has no effect in this model"));
    let own = matches!(resolved.origin, Origin::File { .. });
    let unmatched = coverage.unmatched.iter().filter(|_| own);
    let unmatched = unmatched
        .map(|glob| format!("[gguf.ignore_keys] {glob:?} of spec {id} does not match any key of this file"));
    idle.chain(unmatched).collect()
}
