//! `convert DIR OUT`: converts a Hugging Face folder to a GGUF file.

use crate::arguments::model_source::find_source;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::folder_plan;
use crate::commands::folder_plan::{FolderPlan, TokenizerOutput};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output;
use crate::output::output_file;
use clap::Args;
use menagerie::convert::{ConversionPlan, OutputTypes};
use menagerie::quantize::Policy;
use serde_json::json;
use std::path::PathBuf;

/// Write a model folder (config.json, safetensors, tokenizer) as a GGUF file
///
/// Keys, tensor names, row order, tokenizer and chat template of the file are derived from the spec of the folder's
/// architecture. If the folder has something that a GGUF file of that architecture cannot represent, the command fails
/// before it writes anything; losses of the tokenizer are reported as notes.
#[derive(Args)]
pub(crate) struct ConvertCommand {
    /// A folder with config.json and .safetensors files, or a reference to one
    model: NameOrPath,
    /// The GGUF file to write
    out: PathBuf,
    /// Type of the matrices: f32, f16, bf16 or q8_0 [default: the most frequent type in the folder]
    #[arg(long, value_name = "TYPE")]
    outtype: Option<String>,
    /// Quantize to a file type of `quantize`: Q4_K_M, Q5_K_S, ...
    #[arg(long, value_name = "TYPE", conflicts_with = "outtype")]
    quant: Option<String>,
    /// Write no tokenizer: the file can be used with token ids only
    #[arg(long)]
    no_tokenizer: bool,
    /// Number of threads [default: the cores that this process may use]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print the plan of the file as JSON, and write nothing
    #[arg(long)]
    json: bool,
    /// Convert the model although this key of config.json is not used (repeatable, no wildcards)
    #[arg(long, value_name = "KEY")]
    accept_unread: Vec<String>,
    #[command(flatten)]
    specs: SpecArguments,
}

impl Runnable for ConvertCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let environment = self.specs.environment(&context.environment)?;
        let source = find_source(&self.model, &self.specs, &environment)?;
        if !self.json {
            output_file::may_write(&self.out, self.force, &[&source.path])?;
        }
        if output_file::is_device(&self.out) {
            return Err(Failure::about(self.out.display(), "is not a regular file; name another one"));
        }
        let types = match (&self.quant, &self.outtype) {
            (Some(name), _) => OutputTypes::Policy(Policy::named(name)?),
            (None, Some(name)) => OutputTypes::Single(name),
            (None, None) => OutputTypes::AsStored,
        };
        let folder = FolderPlan {
            source: &source,
            environment: &environment,
            accept_unread: &self.accept_unread,
            threads: self.threads.map(|threads| threads as usize),
            texts: if self.no_tokenizer { TokenizerOutput::LeftOut } else { TokenizerOutput::Written },
            importance: None,
        };
        folder.with(&types, |plan| {
            if self.json {
                return output::json(&as_json(plan));
            }
            output_file::has_room(&self.out, plan.bytes())?;
            folder_plan::write(plan, &self.out, folder.threads)?;
            folder_plan::say_written(&self.out)
        })
    }
}

fn as_json(plan: &ConversionPlan<'_>) -> serde_json::Value {
    let tensors: Vec<serde_json::Value> = plan
        .tensors()
        .map(|(name, dims, kind)| json!({"name": name, "dims": dims, "type": kind.to_string()}))
        .collect();
    let keys: Vec<&str> = plan.metadata().iter().map(|(key, _)| key.as_str()).collect();
    json!({"keys": keys, "tensors": tensors, "bytes": plan.bytes(), "lost": plan.notes})
}
