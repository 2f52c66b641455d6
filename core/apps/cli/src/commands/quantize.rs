//! `quantize IN OUT TYPE`: quantizes the weights of a model.

use crate::arguments::model_source::find_source;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::specs::SpecArguments;
use crate::commands::folder_plan;
use crate::commands::folder_plan::{FolderPlan, TokenizerOutput};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file;
use crate::screen::{progress, report};
use crate::{interrupt, output};
use clap::Args;
use menagerie::convert::OutputTypes;
use menagerie::files::path_text;
use menagerie::gguf::{GgmlType, GgufFile, OpenOptions};
use menagerie::kernels::Cpu;
use menagerie::open::ModelSource;
use menagerie::quantize::{FileQuantizer, Importance, PlannedTensor, Policy};
use menagerie::registry::Environment;
use serde_json::json;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Quantize the weights of a model, in the same way as llama-quantize
///
/// TYPE is a file type: Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q3_K_M, IQ4_XS, Q4_0, F16, ... Most tensors get the type in its name,
/// some get another one, as in llama-quantize; --dry-run lists them. The model is read and written tensor by tensor. Types
/// with less than three bits require an importance matrix, and all small types benefit from one: see `imatrix`.
#[derive(Args)]
pub(crate) struct QuantizeCommand {
    /// The model: a .gguf file (the first one if it has several parts), a folder with config.json and .safetensors files, or
    /// any MODEL that `run` accepts
    input: NameOrPath,
    /// The file to write
    out: PathBuf,
    /// The file type, in upper or lower case
    #[arg(value_name = "TYPE")]
    file_type: String,
    /// Importance matrix from `imatrix` or llama-imatrix (GGUF)
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,
    /// Quantize all tensors to the same type
    #[arg(long)]
    pure: bool,
    /// Type of the output head
    #[arg(long, hide_short_help = true, value_name = "TYPE", value_parser = tensor_type)]
    output_tensor_type: Option<GgmlType>,
    /// Type of the token embedding
    #[arg(long, hide_short_help = true, value_name = "TYPE", value_parser = tensor_type)]
    token_embedding_type: Option<GgmlType>,
    /// Type of the tensors with a role (ffn_down) or of one tensor (blk.0.ffn_down.weight); repeatable, the first match
    /// applies
    #[arg(long, hide_short_help = true, value_name = "ROLE=TYPE", value_parser = role_type)]
    tensor_type: Vec<(String, GgmlType)>,
    /// Allow requantizing weights that are already quantized
    #[arg(long)]
    allow_requantize: bool,
    /// For a folder: continue although this key of config.json is not used (repeatable, no wildcards)
    #[arg(long, hide_short_help = true, value_name = "KEY")]
    accept_unread: Vec<String>,
    /// Only list the type that each tensor would get
    #[arg(long)]
    dry_run: bool,
    /// Number of threads [default: the cores that this process may use]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    specs: SpecArguments,
}

/// Parses the name of a tensor type.
pub(crate) fn tensor_type(text: &str) -> Result<GgmlType, String> {
    GgmlType::from_name(text).ok_or_else(|| format!("`{text}` is not a tensor type (Q4_K, Q8_0, F16, ...)"))
}

fn role_type(text: &str) -> Result<(String, GgmlType), String> {
    let (role, kind) =
        text.split_once('=').ok_or_else(|| "expected ROLE=TYPE, e.g. ffn_down=Q6_K".to_owned())?;
    Ok((role.to_owned(), tensor_type(kind)?))
}

impl Runnable for QuantizeCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let environment = self.specs.environment(&context.environment)?;
        let source = find_source(&self.input, &self.specs, &environment)?;
        let input = source.path.clone();
        if !self.dry_run {
            let parts = GgufFile::part_paths(&input);
            let inputs: Vec<&Path> =
                parts.iter().map(PathBuf::as_path).chain(self.imatrix.as_deref()).collect();
            output_file::may_write(&self.out, self.force, &inputs)?;
            if output_file::is_device(&self.out) {
                return Err(Failure::about(path_text(&self.out), "is not a regular file; name another one"));
            }
        }
        if input.is_dir() || input.extension().is_some_and(|end| end == "safetensors") {
            return self.folder(&source, &environment);
        }
        let policy = self.policy()?;
        let file = GgufFile::open(&input, &OpenOptions::default())?;
        let (name, importance) = self.importance()?;
        let importance = importance.as_ref().map(|importance| (name.as_str(), importance));
        let job = FileQuantizer::new(&file, &policy, importance, self.allow_requantize)?;
        if !self.dry_run {
            output_file::has_room(&self.out, job.bytes())?;
            self.write(&job)?;
        }
        self.say(job.planned())
    }
}

impl QuantizeCommand {
    /// Quantizes a folder, which is converted to a GGUF file at the same time.
    fn folder(&self, source: &ModelSource, environment: &Environment) -> Result<(), Failure> {
        let (name, importance) = self.importance()?;
        let folder = FolderPlan {
            source,
            environment,
            accept_unread: &self.accept_unread,
            threads: self.threads.map(|threads| threads as usize),
            texts: TokenizerOutput::Written,
            importance: importance.as_ref().map(|importance| (name.as_str(), importance)),
        };
        folder.with(&OutputTypes::Policy(self.policy()?), |plan| {
            if !self.dry_run {
                output_file::has_room(&self.out, plan.bytes())?;
                folder_plan::write(plan, &self.out, folder.threads)?;
            }
            self.say(&plan.planned())
        })
    }

    /// The importance matrix, if requested, and the name of its file.
    fn importance(&self) -> Result<(String, Option<Importance>), Failure> {
        let name = self.imatrix.as_ref().map(|path| path_text(path)).unwrap_or_default();
        Ok((name, self.imatrix.as_deref().map(Importance::open).transpose()?))
    }

    fn policy(&self) -> Result<Policy, Failure> {
        let mut policy = Policy::named(&self.file_type)?;
        policy.pure = self.pure;
        policy.output = self.output_tensor_type;
        policy.embedding = self.token_embedding_type;
        policy.tensors.clone_from(&self.tensor_type);
        policy.importance = self.imatrix.is_some();
        Ok(policy)
    }

    fn write(&self, job: &FileQuantizer) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let cpu = Cpu::new(self.threads.map(|threads| threads as usize))?;
        let bar = progress::bytes(None, 0);
        let written = job.write(&self.out, &cpu, &mut |at| {
            bar.set_length(at.total);
            bar.set_position(at.done);
            progress::say(&bar, at.tensor);
            if cancel.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        Ok(written?)
    }

    fn say(&self, planned: &[PlannedTensor]) -> Result<(), Failure> {
        let elements: u64 = planned.iter().map(|tensor| tensor.elements).sum();
        let sum = |bytes: fn(&PlannedTensor) -> u64| planned.iter().map(bytes).sum::<u64>();
        let (before, after) = (sum(|tensor| tensor.bytes_before), sum(|tensor| tensor.bytes));
        let bits = |bytes: u64| bytes as f64 * 8.0 / elements.max(1) as f64;
        let fell_back = planned.iter().filter(|tensor| tensor.choice.instead_of.is_some()).count();
        if self.json {
            let tensor = |tensor: &PlannedTensor| {
                json!({
                    "name": tensor.name, "from": tensor.from.name(), "to": tensor.choice.kind.name(),
                    "instead_of": tensor.choice.instead_of.map(GgmlType::name), "bytes": tensor.bytes,
                })
            };
            return output::json(&json!({
                "input": self.input, "out": (!self.dry_run).then(|| path_text(&self.out)),
                "file_type": self.policy()?.file_type().to_string(),
                "bytes_before": before, "bytes": after,
                "bits_per_weight_before": bits(before), "bits_per_weight": bits(after),
                "tensors": planned.iter().map(tensor).collect::<Vec<_>>(),
            }));
        }
        if self.dry_run {
            let row = |tensor: &PlannedTensor| {
                let why = tensor
                    .choice
                    .instead_of
                    .map(|kind| format!("row size is not a multiple of {kind}'s block"));
                let cells = [tensor.from.name(), tensor.choice.kind.name()].map(str::to_owned);
                let [from, to] = cells;
                vec![tensor.name.clone(), from, to, output::bytes(tensor.bytes), why.unwrap_or_default()]
            };
            let rows: Vec<Vec<String>> = planned.iter().map(row).collect();
            output::table(&["tensor", "from", "to", "size", ""], &rows)?;
        }
        if fell_back > 0 {
            report::note(&format!(
                "{} with a larger type than requested, because the row size is not a multiple of its block size (--dry-run lists \
                 them)",
                output::counted(fell_back, "tensor")
            ));
        }
        output::line(&format!(
            "{}: {} ({:.2} bits per weight: {}), from {} ({:.2})",
            if self.dry_run { "result".to_owned() } else { path_text(&self.out) },
            output::bytes(after),
            bits(after),
            kinds(planned),
            output::bytes(before),
            bits(before)
        ))
    }
}

/// `210 Q4_K, 61 F32`, the most bytes first.
fn kinds(planned: &[PlannedTensor]) -> String {
    let mut kinds: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for tensor in planned {
        let of = kinds.entry(tensor.choice.kind.name()).or_default();
        *of = (of.0 + tensor.bytes, of.1 + 1);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, (bytes, _))| std::cmp::Reverse(*bytes));
    kinds.iter().map(|(kind, (_, count))| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}
