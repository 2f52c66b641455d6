//! `show ARCH|MODEL`: prints a spec, or how a model is interpreted.

use crate::arguments::key_setting::key_setting;
use crate::arguments::model_source::{find_recipe, find_source};
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::spec_reference::{find_architecture, find_spec_file};
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::listing::{adapter_listing, model_summary, plugin_parts, recipe_listing};
use crate::output;
use crate::output::bytes as readable_bytes;
use clap::Args;
use menagerie::assembly::{AssembleOptions, Assembly, open_model};
use menagerie::engine::{Arithmetic, KvType};
use menagerie::model::Compute;
use menagerie::open::{Device, KeyOptions, ModelSource, ResolvedFile, tokenizer_tables};
use menagerie::registry::{ArchitectureEntry, Environment, RecipeEntry};
use menagerie::spec::{MetadataValue, ResolvedValue, layer_ranges};
use menagerie_entries::{nearest, nearest_clause};
use serde_json::{Value, json};

/// Show an architecture, or a model with the values that its architecture resolves to
///
/// For a model, prints a summary: parameters, types, vocabulary, chat template, license, memory. Options add every resolved
/// value with its layers and origin (file, tensors, spec or default), the values that only logits can verify, the tensors,
/// and ignored keys and tensors.
#[derive(Args)]
pub(crate) struct ShowCommand {
    /// Id of an architecture, a spec file, a model, a recipe or an adapter
    what: NameOrPath,
    /// Load the model although this metadata key is not used (repeatable)
    #[arg(long, hide_short_help = true, value_name = "KEY")]
    accept_unread: Vec<String>,
    /// Override a metadata key of the file (repeatable)
    #[arg(long, hide_short_help = true, value_name = "KEY=VALUE", value_parser = key_setting)]
    set: Vec<(String, MetadataValue)>,
    /// List every resolved value and its origin, notes about differences between implementations, types, and memory by
    /// context
    #[arg(long)]
    values: bool,
    /// List every tensor with its role
    #[arg(long)]
    tensors: bool,
    /// List ignored keys and tensors with the reasons
    #[arg(long)]
    ignored: bool,
    /// The same as --values --tensors --ignored
    #[arg(long)]
    all: bool,
    /// For an architecture: merge the specs that it extends, and show the origin of each line
    #[arg(long)]
    merged: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

impl Runnable for ShowCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        if adapter_listing::printed(self.what.path(), self.json)? {
            return Ok(());
        }
        if let Some(meant) = find_spec_file(&self.what, &self.specs, installed)? {
            return print_architecture(&meant.entry, self.merged, self.json);
        }
        let environment = self.specs.environment(installed)?;
        if let Some(entry) = find_architecture(&self.what, &environment) {
            return print_architecture(entry, self.merged, self.json);
        }
        let recipe = find_recipe(&self.what, &self.specs, &environment)?;
        if let Some(entry) = recipe.as_ref().filter(|entry| recipe_listing::is_form(entry)) {
            return recipe_listing::print(entry, self.json);
        }
        let source = find_source(&self.what, &self.specs, &environment)
            .map_err(|failure| self.unknown(&environment, failure))?;
        self.model(&source, recipe.as_ref(), &environment)
    }
}

impl ShowCommand {
    /// The error for a word that is not a model; suggests the nearest architecture.
    fn unknown(&self, environment: &Environment, failure: Failure) -> Failure {
        let Some(what) = self.what.name().filter(|what| !what.contains(['/', '.'])) else { return failure };
        let ids = environment.architectures().iter().map(|entry| entry.id.as_str());
        let Some(near) = nearest(what, ids) else { return failure };
        let near = nearest_clause(Some(near));
        Failure::Failed(format!("`{what}` is not an architecture, file or model{near}")).with_help(
            "`menagerie list` shows the architectures, `menagerie models` the models on this machine",
        )
    }

    fn model(
        &self,
        source: &ModelSource,
        recipe: Option<&RecipeEntry>,
        environment: &Environment,
    ) -> Result<(), Failure> {
        let set = self.set.iter().cloned().collect();
        let keys =
            source.keys(KeyOptions::default().with_accept_unread(self.accept_unread.clone()).with_set(set));
        let resolved =
            ResolvedFile::new(open_model(&source.path, environment.entries(), true)?, environment, keys)?;
        let backend = Device::default().backend(environment.entries(), Some(1), Arithmetic::Fast)?;
        let compute = Compute::new(backend, Arithmetic::Fast);
        let assembly = resolved.assemble(&AssembleOptions::whole(&compute, environment.components()))?;
        let (tables, _) = tokenizer_tables(environment)?;
        let mut summary = model_summary::lines(&resolved, &assembly, tables);
        if let Some(ingredients) = &source.ingredients {
            recipe_listing::over(&mut summary, ingredients, environment)?;
        }
        if self.json {
            let mut shown = as_json(&resolved, &assembly, summary);
            if let Some(entry) = recipe {
                shown["recipe"] = recipe_listing::as_json(entry);
            }
            return output::json(&shown);
        }
        match recipe {
            Some(entry) => output::line(&recipe_listing::headline(entry))?,
            None => output::line(&resolved.file_name())?,
        }
        for (name, value) in summary {
            output::value(name, &value)?;
        }
        if !plugin_parts::parts_of(&resolved).is_empty() {
            let note = "plugins compute on the CPU: with another --device their inputs and outputs are copied at every step";
            output::note(note)?;
        }
        for notice in resolved.notices() {
            output::note(&notice.to_string())?;
        }
        if self.values || self.all {
            values_and_types(&resolved, &assembly)?;
        }
        if self.tensors || self.all {
            tensors(&assembly)?;
        }
        if self.ignored || self.all {
            ignored(&resolved, &assembly)?;
        }
        Ok(())
    }
}

/// Prints a description of a spec and its text.
pub(crate) fn print_architecture(
    entry: &ArchitectureEntry,
    merged: bool,
    as_json: bool,
) -> Result<(), Failure> {
    let spec = entry.spec().clone()?;
    if as_json {
        let text = if merged { spec.merged() } else { entry.text().to_owned() };
        return output::json(&json!({
            "id": entry.id, "names": spec.gguf_names, "summary": spec.summary, "extends": spec.extends,
            "origin": entry.origin.detail(), "provenance": spec.provenance, "supports": spec.features(),
            "document": spec.document(), "text": text,
        }));
    }
    let summary = if spec.summary.is_empty() { String::new() } else { format!(": {}", spec.summary) };
    output::line(&format!("{}{summary}", entry.id))?;
    output::line(&format!("from {}", entry.origin))?;
    for base in &spec.extends {
        output::line(&format!("extends {base}"))?;
    }
    output::line(&format!("supports {}", spec.features().join(", ")))?;
    if let Some(by) = &spec.provenance {
        output::line(&format!("reference: {} ({}); covers {}", by.source, by.reference, by.covers))?;
        for note in &by.notes {
            output::line(&format!("note: {note}"))?;
        }
    }
    let merged = merged.then(|| spec.merged());
    output::line("")?;
    output::data_line(merged.as_deref().unwrap_or(entry.text()).trim_end())
}

fn values_and_types(resolved: &ResolvedFile, assembly: &Assembly) -> Result<(), Failure> {
    output::line("\nresolved values")?;
    let all: Vec<&ResolvedValue> = resolved.resolution.values.iter().collect();
    values(&all)?;
    output::line("\nvalues from the spec, not from the file (only logits can verify these)")?;
    let facts = resolved.resolution.from_spec_only();
    values(&facts.iter().collect::<Vec<_>>())?;
    let keys = resolved.file.keys(&resolved.spec)?;
    for note in resolved.spec.notes_about(&|key| keys.get(key).is_some()) {
        output::note(note)?;
    }
    output::line("\ntypes")?;
    let row = |(kind, (count, bytes)): (&String, &(usize, u64))| {
        vec![kind.clone(), count.to_string(), readable_bytes(*bytes)]
    };
    output::table(
        &["type", "tensors", "bytes"],
        &model_summary::types(assembly).iter().map(row).collect::<Vec<_>>(),
    )?;
    output::line("\nmemory by context (mapped weights and KV cache)")?;
    output::table(&["context", "f32", "f16", "q8_0"], &model_summary::memory_rows(resolved, assembly))
}

fn tensors(assembly: &Assembly) -> Result<(), Failure> {
    output::line("\ntensors")?;
    let row = |claim: &menagerie::assembly::Claim| {
        let layer = claim.layer.map(|layer| layer.to_string()).unwrap_or_default();
        let tensor = &claim.tensor;
        vec![
            tensor.name.clone(),
            format!("{:?}", tensor.dims),
            tensor.kind.clone(),
            layer,
            claim.role.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = assembly.claims.iter().map(row).collect();
    output::table(&["tensor", "dims", "type", "layer", "role"], &rows)
}

/// Prints the keys and tensors that neither the layers nor tokenizer and template use.
fn ignored(resolved: &ResolvedFile, assembly: &Assembly) -> Result<(), Failure> {
    output::line("\nnot used by the model")?;
    for ignored in &assembly.ignored {
        output::line(&format!("tensor {}: {}", ignored.tensor.name, ignored.reason))?;
    }
    for (key, reason) in &resolved.resolution.coverage.ignored {
        output::line(&format!("key {key}: {reason}"))?;
    }
    Ok(())
}

fn values(entries: &[&ResolvedValue]) -> Result<(), Failure> {
    let row = |entry: &&ResolvedValue| {
        let layers = if entry.layers.is_empty() { "model".to_owned() } else { layer_ranges(&entry.layers) };
        vec![entry.path.clone(), entry.value.clone(), layers, entry.origin.to_string()]
    };
    output::table(&["name", "value", "layers", "origin"], &entries.iter().map(row).collect::<Vec<_>>())
}

fn as_json(resolved: &ResolvedFile, assembly: &Assembly, summary: model_summary::SummaryLines) -> Value {
    let claim = |claim: &menagerie::assembly::Claim| {
        json!({
            "tensor": claim.tensor.name, "role": claim.role, "layer": claim.layer, "dims": claim.tensor.dims,
            "type": claim.tensor.kind, "bytes": claim.tensor.bytes,
        })
    };
    let memory = |context: usize| {
        let of = |kind| model_summary::state(assembly, kind, context).ok();
        json!({ "context": context, "f32": of(KvType::F32), "f16": of(KvType::F16), "q8_0": of(KvType::Q8_0) })
    };
    let summary: serde_json::Map<String, Value> =
        summary.into_iter().map(|(name, value)| (name.replace(' ', "_"), Value::String(value))).collect();
    let mut config = json!(resolved.config());
    // Sizes are printed as whole numbers, although they are stored as floats.
    for size in config["hints"].as_object_mut().into_iter().flat_map(|hints| hints.values_mut()) {
        if let Some(whole) = size.as_f64().filter(|size| size.fract() == 0.0 && size.abs() < 1e15) {
            *size = json!(whole as i64);
        }
    }
    json!({
        "file": resolved.file_name(),
        "name": resolved.file.name(),
        "architecture": resolved.config().architecture,
        "origin": resolved.origin.detail(),
        "plugins": plugin_parts::parts_of(resolved),
        "provenance": resolved.spec.provenance,
        "parameters": assembly.parameters(),
        "summary": summary,
        "config": config,
        "values": resolved.resolution.values,
        "coverage": resolved.resolution.coverage,
        "tensors": assembly.claims.iter().map(claim).collect::<Vec<_>>(),
        "memory": {
            "weights": assembly.weight_bytes(),
            "state": model_summary::contexts(resolved).into_iter().map(memory).collect::<Vec<_>>(),
        },
    })
}
