//! `merge MODEL --lora PATH OUT`: a model with adapters in its weights.

use crate::failure::Failure;
use crate::model_arguments::ModelArguments;
use crate::{interrupt, output, output_file};
use clap::Args;
use indicatif::ProgressBar;
use menagerie::gguf::GgufFile;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Write a model with adapters in its weights
///
/// Every tensor keeps its type: what was quantised is dequantised, changed and quantised again. A file that runs
/// anywhere, without the adapter.
#[derive(Args)]
pub(crate) struct MergeCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// The file to write
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl MergeCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let input = self.model.locate()?;
        let parts = GgufFile::part_paths(&input);
        output_file::may_write(
            &self.out,
            self.force,
            &parts.iter().map(PathBuf::as_path).collect::<Vec<&Path>>(),
        )?;
        if output_file::is_device(&self.out) {
            return Err(Failure::about(self.out.display(), "is not a file; name one to write"));
        }
        let pipeline = self.model.open()?;
        let Some(set) = pipeline.engine().adapters.clone() else {
            return Err(Failure::Usage("no adapter: there is nothing to merge".to_owned())
                .with_help("give one with --lora PATH[=WEIGHT]"));
        };
        let merge = pipeline.merge(&set)?;
        let cancel = interrupt::flag()?;
        let bar = ProgressBar::new(0);
        let written = merge.write(&self.out, &mut |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            if cancel.load(Ordering::SeqCst) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        if cancel.load(Ordering::SeqCst) && written.is_err() {
            return Err(Failure::Interrupted);
        }
        written?;
        let changed = output::counted(merge.tensors(), "tensor");
        output::line(&format!("{}: {changed} changed by the adapters", self.out.display()))
    }
}
