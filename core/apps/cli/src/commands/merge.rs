//! `merge MODEL --lora PATH OUT`: merges adapters into the weights of a model.

use crate::arguments::model::ModelArguments;
use crate::commands::folder_plan;
use crate::commands::folder_plan::{OpenFolder, TokenizerOutput};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file;
use crate::screen::progress;
use crate::{interrupt, output};
use clap::Args;
use menagerie::assembly::HfModel;
use menagerie::convert::OutputTypes;
use menagerie::engine::TextPipeline;
use menagerie::gguf::GgufFile;
use menagerie::model::{Adapter, AdapterSet};
use menagerie::open::{LoadedModel, Merge};
use serde_json::json;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Merge adapters into the weights of a model and write the result
///
/// Every tensor keeps its type: a quantized tensor is dequantized, changed and quantized again. The output has the format
/// of the model, GGUF or a folder with config.json; a folder is converted to GGUF if OUT ends in .gguf. The merged model
/// does not need the adapters.
#[derive(Args)]
pub(crate) struct MergeCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// The file or folder to write
    out: PathBuf,
    /// Replace the file or the model folder if it exists
    #[arg(long)]
    force: bool,
    /// Print a summary as JSON
    #[arg(long)]
    json: bool,
}

impl Runnable for MergeCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        if let Some(kind) = self.model.quant_name() {
            return Err(Failure::Usage(format!(
                "--quant {kind} is not supported: merged tensors keep their types"
            ))
            .with_help("merge first, then run `menagerie quantize` on the result"));
        }
        let opening = self.model.opening(installed)?;
        let input = opening.path();
        let folder = HfModel::folder_of(input);
        let converts = folder.is_some() && self.out.extension().is_some_and(|end| end == "gguf");
        match folder.filter(|_| !converts) {
            Some(_) => self.may_write_folder()?,
            None => self.may_write_file(input)?,
        }
        let pipeline = opening.open_text()?;
        let Some(set) = pipeline.engine().adapters.clone() else {
            return Err(Failure::Usage("nothing to merge: no adapter is given".to_owned())
                .with_help("give one with --lora PATH[=WEIGHT]"));
        };
        let merge = pipeline.merge(&set)?;
        match converts {
            true => self.convert(&pipeline, &merge)?,
            false => self.write(&merge)?,
        }
        self.say(&merge, &set)
    }
}

impl MergeCommand {
    fn may_write_file(&self, input: &Path) -> Result<(), Failure> {
        let parts = GgufFile::part_paths(input);
        let parts: Vec<&Path> = parts.iter().map(PathBuf::as_path).collect();
        output_file::may_write(&self.out, self.force, &parts)?;
        match output_file::is_device(&self.out) {
            true => Err(Failure::about(self.out.display(), "is not a regular file; name another one")),
            false => Ok(()),
        }
    }

    /// Checks whether the folder may be written. The library never replaces a folder that is not a model.
    fn may_write_folder(&self) -> Result<(), Failure> {
        let there = self.out.symlink_metadata();
        if let Ok(there) = &there
            && !there.is_dir()
        {
            let reason = "is a file, but the output is a folder; name another one, or a .gguf file";
            return Err(Failure::about(self.out.display(), reason));
        }
        if !self.force && there.is_ok() {
            let reason = "exists; --force replaces it, or name another folder";
            return Err(Failure::about(self.out.display(), reason));
        }
        Ok(())
    }

    /// Writes a folder as a GGUF file, with the most frequent type of the folder for its matrices.
    fn convert(&self, pipeline: &LoadedModel<TextPipeline>, merge: &Merge) -> Result<(), Failure> {
        let resolved = pipeline.resolved();
        let compute = &pipeline.engine().compute;
        let tensors = merge.merged_tensors();
        let threads = self.model.load_options().placement.threads;
        let folder = OpenFolder {
            resolved,
            tensors: &tensors,
            compute,
            texts: TokenizerOutput::Written,
            importance: None,
            missing_head: None,
        };
        folder.plan(&OutputTypes::AsStored, |plan| {
            folder_plan::write(plan, &self.out, threads)?;
            folder_plan::say_written(&self.out)
        })
    }

    fn write(&self, merge: &Merge) -> Result<(), Failure> {
        let cancel = interrupt::flag()?;
        let bar = progress::steps(0);
        let written = merge.write(&self.out, &mut |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            if cancel.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        if cancel.load(Ordering::SeqCst) && written.is_err() {
            return Err(Failure::Interrupted);
        }
        Ok(written?)
    }

    fn say(&self, merge: &Merge, set: &AdapterSet) -> Result<(), Failure> {
        if self.json {
            let adapter =
                |(adapter, weight): (&Arc<Adapter>, f32)| json!({"name": adapter.name(), "weight": weight});
            return output::json(&json!({
                "model": self.model.model, "out": self.out.display().to_string(),
                "adapters": set.adapters().map(adapter).collect::<Vec<_>>(), "tensors": merge.tensors(),
            }));
        }
        let changed = output::counted(merge.tensors(), "tensor");
        output::line(&format!("{}: {changed} changed by the adapters", self.out.display()))
    }
}
