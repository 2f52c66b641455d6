//! `inspect FILE`: the contents of a model file of any architecture.

use crate::arguments::model_source::find_source;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::inspect;
use crate::inspect::contents::{FileContents, KeySummary, TensorSummary};
use crate::output;
use crate::screen::report;
use clap::Args;
use menagerie::open::is_recipe;
use menagerie::registry::Environment;
use menagerie::spec::glob_matches;
use menagerie_entries::{nearest, nearest_clause};
use serde_json::json;

/// Show the contents of a model file: keys, tensors, tokenizer, chat template, license
///
/// Works for any GGUF or safetensors file and any Hugging Face folder, even if the architecture is not supported, because
/// nothing is interpreted. `show` prints how the engine interprets a model.
#[derive(Args)]
pub(crate) struct InspectCommand {
    /// A .gguf or .safetensors file, a folder with config.json, or any MODEL that `run` accepts
    file: NameOrPath,
    /// Only keys that match; `*` matches any text (repeatable)
    #[arg(long, value_name = "GLOB")]
    keys: Vec<String>,
    /// Only tensors that match; `*` matches any text (repeatable)
    #[arg(long, value_name = "GLOB")]
    tensors: Vec<String>,
    /// Print only the chat template
    #[arg(long, conflicts_with = "json")]
    template: bool,
    /// Print JSON, with complete arrays
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

impl Runnable for InspectCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let environment = self.specs.environment(&context.environment)?;
        let path = self.file.path();
        let path = match path.exists() && !is_recipe(path) {
            true => path.to_owned(),
            false => find_source(&self.file, &self.specs, &environment)?.path,
        };
        let mut inspected = inspect::open(&path)?;
        if self.template {
            let none = || Failure::about(path.display(), "it has no chat template");
            return output::data_line(inspected.template.as_ref().ok_or_else(none)?);
        }
        let filtered = !self.keys.is_empty() || !self.tensors.is_empty();
        if filtered {
            self.fitting(&inspected)?;
            let fits = |globs: &[String], name: &str| globs.iter().any(|glob| glob_matches(glob, name));
            inspected.keys.retain(|key| fits(&self.keys, &key.name));
            inspected.tensors.retain(|tensor| fits(&self.tensors, &tensor.name));
        }
        if self.json {
            return output::json(&inspected);
        }
        if !filtered {
            self.head(&inspected, &environment)?;
        }
        keys(&inspected.keys)?;
        tensors(&inspected.tensors)
    }
}

impl InspectCommand {
    /// Prints a note for each pattern without a match; it is an error if no pattern has a match.
    fn fitting(&self, inspected: &FileContents) -> Result<(), Failure> {
        let keys: Vec<&str> = inspected.keys.iter().map(|key| key.name.as_str()).collect();
        let tensors: Vec<&str> = inspected.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let mut unfit = Vec::new();
        for (what, globs, names) in [("key", &self.keys, &keys), ("tensor", &self.tensors, &tensors)] {
            for glob in globs.iter().filter(|glob| !names.iter().any(|name| glob_matches(glob, name))) {
                let near = nearest_clause(nearest(glob, names.iter().copied()));
                unfit.push(format!("no {what} matches `{glob}`{near}"));
            }
        }
        if unfit.len() == self.keys.len() + self.tensors.len() {
            return Err(Failure::Failed(unfit.join("\n")));
        }
        unfit.iter().for_each(|text| report::note(text));
        Ok(())
    }

    /// Prints the summary of the file.
    fn head(&self, inspected: &FileContents, environment: &Environment) -> Result<(), Failure> {
        let mut lines: Vec<(&str, String)> = vec![("format", inspected.format.clone())];
        let total = inspected.files.iter().map(|file| file.bytes).sum();
        lines.push((
            "files",
            format!("{}, {}", output::counted(inspected.files.len(), "file"), output::bytes(total)),
        ));
        lines.extend(inspected.name.clone().map(|name| ("name", name)));
        if let Some(architecture) = &inspected.architecture {
            let known = match environment.architecture_names().any(|name| name == architecture)
                || environment.of_class(architecture).is_ok()
            {
                true => "supported".to_owned(),
                false => format!("not supported; `menagerie spec new {}` drafts a spec", self.file),
            };
            lines.push(("architecture", format!("{architecture} ({known})")));
        }
        let elements: u64 = inspected.tensors.iter().map(TensorSummary::elements).sum();
        let million = elements as f64 / 1e6;
        let count = output::counted(inspected.tensors.len(), "tensor");
        lines.push((
            "tensors",
            format!("{count}, {million:.3} million elements: {}", inspected.types().join(", ")),
        ));
        lines.extend(inspected.tokenizer.clone().map(|line| ("tokenizer", line)));
        let template = inspected
            .template
            .as_ref()
            .map(|text| format!("{} characters (--template)", text.chars().count()));
        lines.push(("chat template", template.unwrap_or_else(|| "none".to_owned())));
        lines.extend(inspected.license.clone().map(|license| ("license", license)));
        output::line(&self.file.to_string())?;
        for (name, value) in lines {
            output::value(name, &value)?;
        }
        Ok(())
    }
}

fn keys(keys: &[KeySummary]) -> Result<(), Failure> {
    if keys.is_empty() {
        return Ok(());
    }
    output::line("\nkeys")?;
    let row = |key: &KeySummary| vec![key.name.clone(), key.kind.clone(), key.shown()];
    output::table(&["key", "type", "value"], &keys.iter().map(row).collect::<Vec<_>>())
}

fn tensors(tensors: &[TensorSummary]) -> Result<(), Failure> {
    if tensors.is_empty() {
        return Ok(());
    }
    output::line("\ntensors")?;
    let row = |tensor: &TensorSummary| {
        vec![
            tensor.name.clone(),
            json!(tensor.dims).to_string().replace(',', ", "),
            tensor.kind.clone(),
            output::bytes(tensor.bytes),
        ]
    };
    output::table(&["tensor", "dims", "type", "bytes"], &tensors.iter().map(row).collect::<Vec<_>>())
}
