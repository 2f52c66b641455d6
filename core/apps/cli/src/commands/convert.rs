//! `convert DIR OUT`: a folder of Hugging Face's form to a GGUF file.

use crate::failure::Failure;
use crate::model_arguments::SpecArguments;
use crate::model_meant::ModelMeant;
use crate::{interrupt, output, output_file, report};
use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use menagerie::assembly::open_model;
use menagerie::convert::{Conversion, ConvertError, Plan, Types};
use menagerie::kernels::Cpu;
use menagerie::loaders::HfTexts;
use menagerie::model::Compute;
use menagerie::pipeline::{Arithmetic, Device, DeviceOptions, KeyOptions, ResolvedFile, tokenizer_tables};
use menagerie::quantise::Policy;
use menagerie::spec::SourceFormat;
use serde_json::json;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Write a model folder (config.json, safetensors, tokenizer) as a GGUF file
///
/// The file is made from the spec of the folder's architecture read backwards: keys, names, row order, tokenizer and chat
/// template. What a GGUF file of that architecture cannot say is refused before anything is written, or said (what the
/// tokenizer loses).
#[derive(Args)]
pub(crate) struct ConvertCommand {
    /// A folder with config.json and .safetensors files, or a reference to one
    model: String,
    /// The GGUF file to write
    out: PathBuf,
    /// Type of the matrices: f32, f16, bf16 or q8_0 [default: as most of the folder's are stored]
    #[arg(long, value_name = "TYPE")]
    outtype: Option<String>,
    /// A file type with types of its own for some tensors, as `quantize` knows them: Q4_K_M, Q5_K_S, ...
    #[arg(long, value_name = "TYPE", conflicts_with = "outtype")]
    quant: Option<String>,
    /// Threads [default: the cores this process may use]
    #[arg(short = 't', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Print what would be written as JSON, and write nothing
    #[arg(long)]
    json: bool,
    /// Convert although nothing reads this name of config.json (repeatable, no wildcard)
    #[arg(long, value_name = "KEY")]
    accept_unread: Vec<String>,
    #[command(flatten)]
    specs: SpecArguments,
}

impl ConvertCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let meant = ModelMeant::of(&self.model, &self.specs)?;
        if !self.json {
            output_file::may_write(&self.out, self.force, &[&meant.path])?;
        }
        if output_file::is_device(&self.out) {
            return Err(Failure::about(self.out.display(), "is not a file; name one to write"));
        }
        let types = match (&self.quant, &self.outtype) {
            (Some(name), _) => Types::Mixture(Policy::named(name)?),
            (None, Some(name)) => Types::One(name),
            (None, None) => Types::AsStored,
        };
        let registry = self.specs.registry()?;
        let keys =
            meant.keys(KeyOptions { accept_unread: self.accept_unread.clone(), ..KeyOptions::default() });
        let file = open_model(&meant.path, true)?;
        if file.format() != SourceFormat::Hf {
            let reason =
                "is a GGUF file already; convert takes a folder with config.json and .safetensors files";
            return Err(Failure::about(file.file(), reason));
        }
        let resolved = ResolvedFile::new(file, &registry, keys)?;
        for notice in resolved.notices() {
            report::note(&notice.to_string());
        }
        let threads = self.threads.map(|threads| threads as usize);
        let backend = Device::default().backend(DeviceOptions { threads, ..DeviceOptions::default() })?;
        let compute = Compute::new(backend, Arithmetic::Exact);
        // Only which tensors the model wants is asked of it.
        let claims = resolved.assemble(&compute)?.claims;
        let (tables, _) = tokenizer_tables(&registry)?;
        let folder = resolved.file_name();
        let texts = HfTexts::open(folder.as_ref())?;
        let keys = resolved.file.keys(&resolved.spec)?;
        let conversion = Conversion {
            folder: &folder,
            name: resolved.file.name(),
            spec: &resolved.spec,
            keys: &*keys,
            resolution: &resolved.resolution,
            tensors: &*resolved.tensors,
            claims: &claims,
            texts: &texts,
            tables: &tables,
            compute: &compute,
        };
        let plan = conversion.plan(&types)?;
        for note in &plan.notes {
            report::note(note);
        }
        if self.json {
            return output::json(&as_json(&plan));
        }
        self.write(&plan, threads)
    }

    fn write(&self, plan: &Plan<'_>, threads: Option<usize>) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let bar = bar(plan.bytes());
        let written = plan.write(&self.out, &Cpu::new(threads)?, &mut |progress| {
            bar.set_position(progress.done);
            if cancel.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        match written {
            Err(ConvertError::Stopped) => return Err(Failure::Interrupted),
            other => other?,
        }
        let bytes =
            std::fs::metadata(&self.out).map_err(|error| Failure::about(self.out.display(), error))?.len();
        output::line(&format!("{}: {}", self.out.display(), output::bytes(bytes)))
    }
}

fn as_json(plan: &Plan<'_>) -> serde_json::Value {
    let tensors: Vec<serde_json::Value> = plan
        .tensors()
        .map(|(name, dims, kind)| json!({"name": name, "dims": dims, "type": kind.to_string()}))
        .collect();
    let keys: Vec<&str> = plan.metadata().iter().map(|(key, _)| key.as_str()).collect();
    json!({"keys": keys, "tensors": tensors, "bytes": plan.bytes(), "lost": plan.notes})
}

fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    let form = "{wide_bar} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar
}
