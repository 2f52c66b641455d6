//! `show ARCH|MODEL`: what a spec says, or what it makes of a file.

use crate::failure::Failure;
use crate::model_arguments::{SpecArguments, locate};
use crate::output;
use clap::Args;
use menagerie::assembly::{AssembleOptions, Assembly, GgufSource, assemble};
use menagerie::hub::progress::readable_bytes;
use menagerie::loaders::{GgufLoader, LoadOptions};
use menagerie::pipeline::{KvType, MemoryEstimate, ResolvedFile};
use menagerie::registry::Entry;
use menagerie::spec::{Provenance, fault::layer_ranges};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Contexts whose memory is shown, in tokens.
const CONTEXTS: [usize; 4] = [2048, 8192, 32768, 131_072];

/// Show an architecture, or what it makes of a model's file
///
/// Of a model: every resolved value with its layers and where it came from (file, tensors, spec or default), the facts that
/// only logits can check, tensors, types, and memory by context.
#[derive(Args)]
pub(crate) struct ShowCommand {
    /// Id of an architecture, or a model
    what: String,
    /// Load although nothing reads this metadata key (repeatable)
    #[arg(long, value_name = "KEY")]
    accept_unread: Vec<String>,
    /// List every tensor with its role
    #[arg(long)]
    tensors: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

impl ShowCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let registry = self.specs.registry()?;
        if !Path::new(&self.what).exists()
            && let Some(entry) = registry.entry(&self.what)
        {
            return self.architecture(entry);
        }
        let path = locate(&self.what)?;
        let loader = GgufLoader::open(&path, &LoadOptions::default())?;
        let resolved = ResolvedFile::new(loader, &registry, &self.accept_unread)?;
        let source = GgufSource::new(Arc::clone(resolved.loader.file()), resolved.spec.as_ref());
        let assembly = assemble(resolved.config(), &source, &AssembleOptions::default())?;
        if self.json {
            return output::json(&report(&resolved, &assembly));
        }
        self.model(&resolved, &assembly)
    }

    fn architecture(&self, entry: &Entry) -> Result<(), Failure> {
        let spec = entry.spec.clone()?;
        if self.json {
            return output::json(&json!({
                "id": entry.id, "names": spec.gguf_names(), "summary": spec.summary(), "extends": spec.extends(),
                "origin": entry.origin.to_string(), "truth": spec.truth(), "supports": spec.features(), "text": entry.text,
            }));
        }
        output::line(&format!("{}: {}", entry.id, spec.summary()))?;
        output::line(&format!("from {}", entry.origin))?;
        for base in spec.extends() {
            output::line(&format!("extends {base}"))?;
        }
        output::line(&format!("supports {}", spec.features().join(", ")))?;
        if let Some(truth) = spec.truth() {
            output::line(&format!(
                "reference: {} ({}); covers {}",
                truth.source, truth.reference, truth.covers
            ))?;
            for note in &truth.notes {
                output::line(&format!("note: {note}"))?;
            }
        }
        output::line(&format!("\n{}", entry.text.trim_end()))
    }

    fn model(&self, resolved: &ResolvedFile, assembly: &Assembly) -> Result<(), Failure> {
        head(resolved, assembly)?;
        output::line("\nresolved values")?;
        let all: Vec<&Provenance> = resolved.resolution.provenance.iter().collect();
        values(&all)?;
        output::line("\nfrom the spec, not from the file (only logits can check these)")?;
        values(&resolved.resolution.from_spec_only().collect::<Vec<_>>())?;
        output::line("\ntypes")?;
        let row = |(kind, (count, bytes)): (&String, &(usize, u64))| {
            vec![kind.clone(), count.to_string(), readable_bytes(*bytes)]
        };
        output::table(&["type", "tensors", "bytes"], &types(assembly).iter().map(row).collect::<Vec<_>>())?;
        if self.tensors {
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
            output::table(&["tensor", "dims", "type", "layer", "role"], &rows)?;
        }
        for ignored in &assembly.ignored {
            output::line(&format!("ignored: tensor {}: {}", ignored.tensor.name, ignored.reason))?;
        }
        for (key, reason) in &resolved.resolution.coverage.ignored {
            output::line(&format!("ignored: key {key}: {reason}"))?;
        }
        output::line("\nmemory by context (weights mapped, plus keys and values)")?;
        output::table(&["context", "f32", "f16", "q8_0"], &memory_rows(assembly))
    }
}

fn head(resolved: &ResolvedFile, assembly: &Assembly) -> Result<(), Failure> {
    let file = resolved.loader.file();
    let config = resolved.config();
    output::line(&resolved.file_name())?;
    if let Some(name) = resolved.loader.model_name() {
        output::line(&format!("name: {name}"))?;
    }
    output::line(&format!("architecture: {}, {}", config.architecture, resolved.origin))?;
    output::line(&format!(
        "parameters: {:.3} million; file {}; {} layers of width {}; trained context {}",
        assembly.parameters() as f64 / 1e6,
        readable_bytes(file.file_bytes()),
        config.layers.len(),
        config.embedding_length,
        config.context_length.map_or("not stated".to_owned(), |context| context.to_string())
    ))?;
    if let Some(truth) = resolved.spec.truth() {
        output::line(&format!("reference: {} ({}); covers {}", truth.source, truth.reference, truth.covers))?;
        for note in &truth.notes {
            output::line(&format!("note: {note}"))?;
        }
    }
    for notice in resolved.notices() {
        output::line(&format!("note: {notice}"))?;
    }
    Ok(())
}

fn values(entries: &[&Provenance]) -> Result<(), Failure> {
    let row = |entry: &&Provenance| {
        let layers = if entry.layers.is_empty() { "model".to_owned() } else { layer_ranges(&entry.layers) };
        vec![entry.path.clone(), entry.value.clone(), layers, entry.origin.to_string()]
    };
    output::table(&["value", "is", "in", "origin"], &entries.iter().map(row).collect::<Vec<_>>())
}

fn types(assembly: &Assembly) -> BTreeMap<String, (usize, u64)> {
    let mut types = BTreeMap::new();
    for claim in &assembly.claims {
        let (count, bytes) = types.entry(claim.tensor.kind.clone()).or_insert((0, 0));
        *count += 1;
        *bytes += claim.tensor.bytes;
    }
    types
}

fn state_per_token(assembly: &Assembly, kind: KvType) -> u64 {
    MemoryEstimate::new(0, assembly.transformer().stack().states(), kind, 1, 0).state
}

fn memory_rows(assembly: &Assembly) -> Vec<Vec<String>> {
    let cell = |context: usize, kind: KvType| {
        readable_bytes(assembly.weight_bytes() + state_per_token(assembly, kind) * context as u64)
    };
    let row = |&context: &usize| {
        let kinds = [KvType::F32, KvType::F16, KvType::Q8_0];
        std::iter::once(context.to_string()).chain(kinds.map(|kind| cell(context, kind))).collect()
    };
    CONTEXTS.iter().map(row).collect()
}

fn report(resolved: &ResolvedFile, assembly: &Assembly) -> Value {
    let claim = |claim: &menagerie::assembly::Claim| {
        json!({
            "tensor": claim.tensor.name, "role": claim.role, "layer": claim.layer, "dims": claim.tensor.dims,
            "type": claim.tensor.kind, "bytes": claim.tensor.bytes,
        })
    };
    let per_token = |kind| state_per_token(assembly, kind);
    json!({
        "file": resolved.file_name(),
        "name": resolved.loader.model_name(),
        "architecture": resolved.config().architecture,
        "origin": resolved.origin.to_string(),
        "truth": resolved.spec.truth(),
        "parameters": assembly.parameters(),
        "config": resolved.config(),
        "provenance": resolved.resolution.provenance,
        "coverage": resolved.resolution.coverage,
        "tensors": assembly.claims.iter().map(claim).collect::<Vec<_>>(),
        "memory": {
            "weights": assembly.weight_bytes(),
            "state_per_token": {
                "f32": per_token(KvType::F32), "f16": per_token(KvType::F16), "q8_0": per_token(KvType::Q8_0),
            },
        },
    })
}
