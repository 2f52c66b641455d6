//! `imatrix MODEL -f TEXT -o FILE`: measures the activations of each column of each weight.

use crate::arguments::model::ModelArguments;
use crate::arguments::scored_text;
use crate::arguments::scored_text::ScoredText;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file;
use crate::screen::{progress, report};
use crate::{interrupt, output};
use clap::Args;
use menagerie::measure::{Against, ImportanceCollector, PerplexityOptions, TextChunks, perplexity};
use menagerie::quantize::Importance;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// Measure an importance matrix on a text for better quantization, as llama-imatrix does
///
/// Sums the squared activations of each column of each weight, separately for each expert, and writes them to a GGUF file
/// that `quantize --imatrix`, `--quant TYPE --imatrix` and llama-quantize can read. Use a text of several hundred thousand
/// tokens that resembles the future use of the model, and an unquantized model.
#[derive(Args)]
pub(crate) struct ImatrixCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    text: ScoredText,
    /// The file to write
    #[arg(short = 'o', long, value_name = "FILE")]
    out: PathBuf,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

impl Runnable for ImatrixCommand {
    fn run(mut self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let text = self.text.read()?;
        let context = self.text.ctx_size as usize;
        self.model.exactly(context);
        let opening = self.model.opening(installed)?;
        output_file::may_write(&self.out, self.force, &[opening.path()])?;
        if output_file::is_device(&self.out) {
            return Err(Failure::about(self.out.display(), "is not a regular file; name another one"));
        }
        let slot: Arc<OnceLock<Arc<ImportanceCollector>>> = Arc::default();
        let filled = Arc::clone(&slot);
        let opening = opening.with_linear_wrapper(move |spec| {
            let collector = Arc::new(ImportanceCollector::new(Arc::clone(spec)));
            Arc::clone(filled.get_or_init(|| collector)) as _
        });
        let pipeline = opening.open_text()?;
        let chunks = TextChunks::of_text(&**pipeline.tokenizer()?, &text, context, self.text.chunks())?;
        let options = PerplexityOptions::default()
            .with_threads(self.model.load_options().placement.threads)
            .with_cancel(interrupt::flag()?);
        let bar = progress::spinner("measuring");
        let made = perplexity(&pipeline, &chunks, Against::Nothing, &options, &mut |at| {
            bar.set_message(scored_text::message(&at));
        });
        bar.finish_and_clear();
        let made = made?;
        let collected = slot.get().map(|collector| collector.collected()).unwrap_or_default();
        let file = self.text.file.as_ref().map(|file| file.display().to_string());
        let importance = Importance {
            datasets: file.into_iter().collect(),
            chunks: made.chunks as u32,
            chunk_tokens: self.text.ctx_size,
            ..collected
        };
        output_file::may_write(&self.out, self.force, &[opening.path()])?;
        importance.write(&self.out)?;
        say_unmet(&importance);
        output::line(&format!(
            "{}: {}, measured on {} of {context} tokens (perplexity {:.4})",
            self.out.display(),
            output::counted(importance.entries.len(), "tensor"),
            output::counted(made.chunks, "chunk"),
            made.perplexity.value
        ))
    }
}

/// Notes experts that no token of the text was routed to: they are quantized as without an importance matrix.
fn say_unmet(importance: &Importance) {
    let counts =
        || importance.entries.values().filter(|entry| entry.counts.len() > 1).flat_map(|entry| &entry.counts);
    let (unmet, all) = (counts().filter(|count| **count == 0).count(), counts().count());
    if unmet > 0 {
        report::note(&format!(
            "{unmet} of {all} matrices of experts received no tokens: use a longer or more varied text"
        ));
    }
}
