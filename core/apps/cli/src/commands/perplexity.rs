//! `perplexity MODEL -f TEXT`: the perplexity of a model on a text, and its divergence from a base model.

use crate::arguments::metrics::MetricsArgument;
use crate::arguments::model::ModelArguments;
use crate::arguments::scored_text;
use crate::arguments::scored_text::ScoredText;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file::OutputFile;
use crate::screen::progress;
use crate::{interrupt, output};
use clap::Args;
use menagerie::measure::{
    Against, BaseReader, Divergence, Estimate, PerplexityOptions, PerplexityResult, TextChunks, perplexity,
};
use serde_json::{Value, json};
use std::io::BufWriter;
use std::path::PathBuf;

/// Measure the perplexity of a model on a text, in the same way as llama-perplexity
///
/// The text is split into chunks of --ctx-size tokens, each starting with BOS if the model uses it; the second half of each
/// chunk is scored. Use bits per byte to compare models with different vocabularies. --save-logits writes the log
/// probabilities of a base model in llama.cpp's format; --base compares another model (or another quantization) with them:
/// Kullback-Leibler divergence, and how often both have the same most likely token.
#[derive(Args)]
pub(crate) struct PerplexityCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    text: ScoredText,
    /// Write the log probabilities at every scored token for later use with --base (two bytes per token of the vocabulary)
    #[arg(long, value_name = "FILE", conflicts_with = "base")]
    save_logits: Option<PathBuf>,
    /// Compare the model with the log probabilities in a file of --save-logits or llama-perplexity, which also has the text
    /// and the chunk size
    #[arg(long, value_name = "FILE")]
    base: Option<PathBuf>,
    /// Replace the file of --save-logits if it exists
    #[arg(long, requires = "save_logits")]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    metrics: MetricsArgument,
}

impl Runnable for PerplexityCommand {
    fn run(mut self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let mut base = self.base.as_deref().map(BaseReader::open).transpose()?;
        let text = match (&base, &self.text.file) {
            (None, None) => {
                return Err(Failure::Usage("the text is missing: give -f FILE or --base FILE".to_owned()));
            }
            (_, Some(_)) => Some(self.text.read()?),
            (Some(_), None) => None,
        };
        if let Some(base) = &base {
            self.text.ctx_size = u32::try_from(base.context()).unwrap_or(u32::MAX);
        }
        let context = self.text.ctx_size as usize;
        self.model.exactly(context);
        let opening = self.model.opening(installed)?;
        let mut file = match &self.save_logits {
            Some(path) => Some(BufWriter::new(OutputFile::create(path, self.force, &[opening.path()])?)),
            None => None,
        };
        let mut pipeline = opening.open_text()?;
        let metrics = self.metrics.watch(&mut pipeline)?;
        let tokenizer = pipeline.tokenizer();
        let chunks = match (&mut base, &text) {
            (Some(base), None) => {
                let beginning = tokenizer.as_ref().ok().and_then(|tokenizer| tokenizer.beginning());
                let tokens = base.text(pipeline.engine().vocabulary())?.tokens.clone();
                TextChunks::new(tokens, beginning, context, self.text.chunks())?
            }
            (_, text) => {
                let text = text.as_deref().unwrap_or_default();
                TextChunks::of_text(&**tokenizer.clone()?, text, context, self.text.chunks())?
            }
        };
        let against = match (&mut base, &mut file) {
            (Some(base), _) => Against::Base(base),
            (None, Some(file)) => Against::Save(file),
            (None, None) => Against::Nothing,
        };
        let options = PerplexityOptions::default()
            .with_threads(self.model.load_options().placement.threads)
            .with_cancel(interrupt::flag()?);
        let bar = progress::spinner("scoring");
        let made = perplexity(&pipeline, &chunks, against, &options, &mut |at| {
            bar.set_message(scored_text::message(&at));
        });
        bar.finish_and_clear();
        metrics.write()?;
        let made = made?;
        if let Some(file) = file {
            file.into_inner().map_err(|error| Failure::from(error.into_error()))?.commit()?;
        }
        let bits = tokenizer.ok().map(|tokenizer| chunks.scored_bytes(&**tokenizer)).transpose()?;
        let bits = bits.map(|bytes| bits_per_byte(&made, bytes));
        match self.json {
            true => output::json(&self.report(&made, bits)),
            false => print(&made, bits),
        }
    }
}

impl PerplexityCommand {
    fn report(&self, made: &PerplexityResult, bits: Option<f64>) -> Value {
        json!({
            "model": self.model.model, "arithmetic": self.model.arithmetic_name(), "quantized": self.model.quant_name(),
            "ctx_size": made.context, "chunks": made.chunks, "scored_tokens": made.scored,
            "perplexity": made.perplexity.value, "error": made.perplexity.error,
            "nll": made.nll.value, "bits_per_byte": bits, "running": made.running,
            "divergence": made.divergence,
        })
    }
}

/// Bits per byte of the text.
pub(crate) fn bits_per_byte(made: &PerplexityResult, bytes: usize) -> f64 {
    made.nll.value * made.scored as f64 / std::f64::consts::LN_2 / bytes.max(1) as f64
}

fn estimate(value: Estimate, digits: usize) -> String {
    format!("{:.digits$} \u{b1} {:.digits$}", value.value, value.error)
}

fn percent(value: Estimate) -> String {
    let by = |value: f64| 100.0 * value;
    format!("{:.2} \u{b1} {:.2} %", by(value.value), by(value.error))
}

fn print(made: &PerplexityResult, bits: Option<f64>) -> Result<(), Failure> {
    let chunks = output::counted(made.chunks, "chunk");
    let mut rows = vec![vec!["perplexity".to_owned(), estimate(made.perplexity, 4)]];
    rows.extend(bits.map(|bits| vec!["bits per byte".to_owned(), format!("{bits:.4}")]));
    rows.extend(made.divergence.as_ref().map(divergence_rows).into_iter().flatten());
    let scored = format!("{} scored in {chunks} of {}", output::counted(made.scored, "token"), made.context);
    rows.push(vec!["tokens".to_owned(), scored]);
    output::write(&lines(&rows))
}

/// The rows of the divergence from a base model.
pub(crate) fn divergence_rows(made: &Divergence) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    vec![
        row("perplexity of the base", estimate(made.base_perplexity, 4)),
        row("ln(perplexity / base)", estimate(made.ln_ratio, 5)),
        row("KL divergence, mean", estimate(made.kl, 6)),
        row("KL divergence, median", format!("{:.6}", made.kl_median)),
        row("KL divergence, 99 %", format!("{:.6}", made.kl_99)),
        row("KL divergence, 99.9 %", format!("{:.6}", made.kl_999)),
        row("KL divergence, maximum", format!("{:.6}", made.kl_max)),
        row("same top token", percent(made.same_top)),
        row("change of p, mean", percent(made.delta_p)),
        row("change of p, RMS", format!("{:.2} %", 100.0 * made.delta_p_rms)),
    ]
}

/// Names in one column, values in the next.
pub(crate) fn lines(rows: &[Vec<String>]) -> String {
    let width = rows.iter().filter_map(|row| row.first()).map(|name| name.chars().count()).max().unwrap_or(0);
    let line = |row: &Vec<String>| format!("{:<width$}  {}\n", row[0], row[1..].join("  "));
    rows.iter().map(line).collect()
}
