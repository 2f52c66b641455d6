//! `synth SPEC OUT`: writes a model of a real shape with random weights.

use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::spec_reference::require_spec;
use crate::arguments::specs::SpecArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file;
use crate::screen::progress;
use crate::{interrupt, output};
use clap::Args;
use menagerie::spec::MetadataValue;
use menagerie::synth::{SynthError, Synthesis, policy};
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Shapes by name: canonical keys of published models.
const SHAPES: &str = include_str!("shapes.json");

/// Write a model with a real shape and random weights, for measuring speed and memory
///
/// The shape is a name (--shape list shows them), a name with canonical keys that change it (--shape llama-3.2-1b --shape
/// block_count=4), or every key that the architecture requires. The model's output is meaningless, and it has no tokenizer.
#[derive(Args)]
pub(crate) struct SynthCommand {
    /// Id of the architecture (`list` shows them), or a spec file
    spec: NameOrPath,
    /// The file to write
    out: Option<PathBuf>,
    /// Name of a shape, or KEY=VALUE (repeatable)
    #[arg(long, value_name = "NAME|KEY=VALUE", required = true)]
    shape: Vec<String>,
    /// File type of the weights, named as in llama-quantize
    #[arg(long, value_name = "TYPE", default_value = "Q4_K_M")]
    quant: String,
    /// Random seed; equal seeds produce equal files
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// With --shape list: print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

/// The keys of a shape; `tied` means that the embedding is also the output head.
struct SynthShape {
    keys: BTreeMap<String, MetadataValue>,
    tied: bool,
}

impl Runnable for SynthCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        if self.shape.iter().any(|shape| shape == "list") {
            return if self.json {
                output::json(&json!({ "shapes": shapes()? }))
            } else {
                output::line(&shape_names()?.join("\n"))
            };
        }
        let Some(out) = &self.out else {
            return Err(Failure::Usage("the file to write is missing".to_owned()));
        };
        output_file::may_write(out, self.force, &[])?;
        if output_file::is_device(out) {
            return Err(Failure::about(out.display(), "is not a regular file; name another one"));
        }
        let cancel = interrupt::flag()?;
        let spec = require_spec(&self.spec, &self.specs, installed)?.spec()?;
        let shape = self.shape()?;
        let policy = policy(&self.quant)?;
        let synthesis =
            Synthesis { spec: &spec, keys: shape.keys, tied: shape.tied, policy: &policy, seed: self.seed };
        let bar = progress::bytes(None, 0);
        let written = menagerie::synth::write(&synthesis, out, &mut |done, total| {
            bar.set_length(total);
            bar.set_position(done);
            if cancel.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        let unnamed = self.shape.iter().all(|part| part.contains('='));
        written.map_err(|error| match error {
            SynthError::Spec(_) | SynthError::MissingKey { .. } if unnamed => {
                Failure::from(error).with_help("also give the name of a shape (`--shape list` shows them)")
            }
            other => Failure::from(other),
        })?;
        let bytes = std::fs::metadata(out).map_err(|error| Failure::about(out.display(), error))?.len();
        output::line(&format!("{}: {}", out.display(), output::bytes(bytes)))
    }
}

impl SynthCommand {
    fn shape(&self) -> Result<SynthShape, Failure> {
        let mut shape = SynthShape { keys: BTreeMap::new(), tied: false };
        for part in &self.shape {
            match part.split_once('=') {
                Some(("", _)) => {
                    return Err(Failure::Usage(format!("--shape {part}: expected NAME or KEY=VALUE")));
                }
                Some(("tied", value)) => shape.tied = value == "true",
                Some((key, value)) => {
                    shape.keys.insert(key.to_owned(), parse_value(value));
                }
                None => shape.add_named(part)?,
            }
        }
        Ok(shape)
    }
}

impl SynthShape {
    fn add_named(&mut self, name: &str) -> Result<(), Failure> {
        let table = shapes()?;
        let Some(shape) = table.get(name).and_then(|shape| shape.as_object()) else {
            let known = shape_names()?.join(", ");
            return Err(Failure::Usage(format!(
                "unknown shape `{name}`; the shapes are {known}; or give KEY=VALUE"
            )));
        };
        for (key, value) in shape {
            if key == "tied" {
                self.tied = value.as_bool().unwrap_or(false);
                continue;
            }
            self.keys.insert(key.clone(), parse_value(&value.to_string()));
        }
        Ok(())
    }
}

fn shapes() -> Result<serde_json::Map<String, serde_json::Value>, Failure> {
    let value: serde_json::Value = serde_json::from_str(SHAPES)?;
    Ok(value.as_object().cloned().unwrap_or_default())
}

/// Names of shapes.
pub(crate) fn shape_names() -> Result<Vec<String>, Failure> {
    Ok(shapes()?.keys().cloned().collect())
}

/// Parses a number, a boolean, a string, or a list of them in brackets.
pub(crate) fn parse_value(text: &str) -> MetadataValue {
    if let Some(list) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return MetadataValue::List(list.split(',').map(|value| parse_value(value.trim())).collect());
    }
    let text = text.trim_matches('"');
    if let Ok(value) = text.parse() {
        return MetadataValue::Integer(value);
    }
    if let Ok(value) = text.parse() {
        return MetadataValue::Number(value);
    }
    match text {
        "true" => MetadataValue::Bool(true),
        "false" => MetadataValue::Bool(false),
        text => MetadataValue::Text(text.to_owned()),
    }
}
