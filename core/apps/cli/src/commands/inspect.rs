//! `inspect FILE`: what is in a model's file, whatever it is.

use crate::arguments::model_source::ModelSource;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::inspect;
use crate::inspect::contents::{Inspected, Key, Tensor};
use crate::output;
use crate::screen::report;
use clap::Args;
use menagerie::open::is_recipe;
use menagerie::registry::Environment;
use menagerie::spec::{glob_matches, nearest};
use serde_json::json;

/// Show what is in a model's file: keys, tensors, tokenizer, chat template, license
///
/// For any GGUF or safetensors file and any folder of Hugging Face, whether its architecture is known or not: nothing is
/// interpreted. What the engine makes of a model is shown by `show`.
#[derive(Args)]
pub(crate) struct InspectCommand {
    /// A .gguf or .safetensors file, a folder with config.json, or a model as `run` takes it
    file: NameOrPath,
    /// Only keys that match, `*` stands for any text (repeatable)
    #[arg(long, value_name = "GLOB")]
    keys: Vec<String>,
    /// Only tensors that match, `*` stands for any text (repeatable)
    #[arg(long, value_name = "GLOB")]
    tensors: Vec<String>,
    /// Print the chat template and nothing else
    #[arg(long, conflicts_with = "json")]
    template: bool,
    /// Print JSON; arrays of keys are whole
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

impl Runnable for InspectCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let path = self.file.path();
        let path = match path.exists() && !is_recipe(path) {
            true => path.to_owned(),
            false => ModelSource::of(&self.file, &self.specs, installed)?.path,
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
            self.head(&inspected, &self.specs.environment(installed)?)?;
        }
        keys(&inspected.keys)?;
        tensors(&inspected.tensors)
    }
}

impl InspectCommand {
    /// Says which patterns fit nothing; where none fits anything, there is nothing to show.
    fn fitting(&self, inspected: &Inspected) -> Result<(), Failure> {
        let keys: Vec<&str> = inspected.keys.iter().map(|key| key.name.as_str()).collect();
        let tensors: Vec<&str> = inspected.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        let mut unfit = Vec::new();
        for (what, globs, names) in [("key", &self.keys, &keys), ("tensor", &self.tensors, &tensors)] {
            for glob in globs.iter().filter(|glob| !names.iter().any(|name| glob_matches(glob, name))) {
                let near = nearest(glob, names.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; the nearest is `{near}`"));
                unfit.push(format!("no {what} fits `{glob}`{near}"));
            }
        }
        if unfit.len() == self.keys.len() + self.tensors.len() {
            return Err(Failure::Failed(unfit.join("\n")));
        }
        unfit.iter().for_each(|text| report::note(text));
        Ok(())
    }

    /// What the file is as a whole.
    fn head(&self, inspected: &Inspected, environment: &Environment) -> Result<(), Failure> {
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
                true => "known".to_owned(),
                false => format!("not known; `menagerie spec new {}` drafts a spec", self.file),
            };
            lines.push(("architecture", format!("{architecture} ({known})")));
        }
        let elements: u64 = inspected.tensors.iter().map(Tensor::elements).sum();
        let million = elements as f64 / 1e6;
        let count = output::counted(inspected.tensors.len(), "tensor");
        lines.push((
            "tensors",
            format!("{count}, {million:.3} million numbers: {}", inspected.types().join(", ")),
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

fn keys(keys: &[Key]) -> Result<(), Failure> {
    if keys.is_empty() {
        return Ok(());
    }
    output::line("\nkeys")?;
    let row = |key: &Key| vec![key.name.clone(), key.kind.clone(), key.shown()];
    output::table(&["key", "type", "value"], &keys.iter().map(row).collect::<Vec<_>>())
}

fn tensors(tensors: &[Tensor]) -> Result<(), Failure> {
    if tensors.is_empty() {
        return Ok(());
    }
    output::line("\ntensors")?;
    let row = |tensor: &Tensor| {
        vec![
            tensor.name.clone(),
            json!(tensor.dims).to_string().replace(',', ", "),
            tensor.kind.clone(),
            output::bytes(tensor.bytes),
        ]
    };
    output::table(&["tensor", "dims", "type", "bytes"], &tensors.iter().map(row).collect::<Vec<_>>())
}
