//! `inspect FILE`: what is in a model's file, whatever it is.

use crate::failure::Failure;
use crate::inspected::{Inspected, Key, Tensor};
use crate::model_arguments::{SpecArguments, locate};
use crate::output;
use clap::Args;
use menagerie::registry::Registry;
use menagerie::spec::glob_matches;
use serde_json::json;

/// Show what is in a model's file: keys, tensors, tokenizer, chat template, licence
///
/// For any GGUF or safetensors file and any folder of Hugging Face, whether its architecture is known or not: nothing is
/// interpreted. What the engine makes of a model is shown by `show`.
#[derive(Args)]
pub(crate) struct InspectCommand {
    /// A .gguf or .safetensors file, a folder with config.json, or a model as `run` takes it
    file: String,
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

impl InspectCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let path = std::path::Path::new(&self.file);
        let path = if path.exists() { path.to_owned() } else { locate(&self.file)? };
        let mut inspected = Inspected::open(&path)?;
        if self.template {
            let none = || Failure::about(path.display(), "it has no chat template");
            return output::line(inspected.template.as_ref().ok_or_else(none)?);
        }
        let filtered = !self.keys.is_empty() || !self.tensors.is_empty();
        if filtered {
            let fits = |globs: &[String], name: &str| globs.iter().any(|glob| glob_matches(glob, name));
            inspected.keys.retain(|key| fits(&self.keys, &key.name));
            inspected.tensors.retain(|tensor| fits(&self.tensors, &tensor.name));
        }
        if self.json {
            return output::json(&inspected);
        }
        if !filtered {
            self.head(&inspected, &self.specs.registry()?)?;
        }
        keys(&inspected.keys)?;
        tensors(&inspected.tensors)
    }

    /// What the file is as a whole.
    fn head(&self, inspected: &Inspected, registry: &Registry) -> Result<(), Failure> {
        let mut lines: Vec<(&str, String)> = vec![("format", inspected.format.clone())];
        let total = inspected.files.iter().map(|file| file.bytes).sum();
        lines.push((
            "files",
            format!("{}, {}", output::counted(inspected.files.len(), "file"), output::bytes(total)),
        ));
        lines.extend(inspected.name.clone().map(|name| ("name", name)));
        if let Some(architecture) = &inspected.architecture {
            let known = match registry.names().any(|name| name == architecture)
                || self.is_class(architecture, registry)
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
        lines.extend(inspected.licence.clone().map(|licence| ("licence", licence)));
        output::line(&self.file)?;
        for (name, value) in lines {
            output::line(&format!("  {name:<14} {value}"))?;
        }
        Ok(())
    }

    fn is_class(&self, name: &str, registry: &Registry) -> bool {
        let specs = registry.entries().iter().filter_map(|entry| entry.spec().as_ref().ok());
        name.contains(|c: char| c.is_ascii_uppercase())
            && specs.flat_map(|spec| spec.hf_classes().to_vec()).any(|class| class.name == name)
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
