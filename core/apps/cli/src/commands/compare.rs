//! `compare A B -f TEXT`: compares two models on a text: perplexity, divergence, size and speed.

use crate::arguments::model::ModelArguments;
use crate::arguments::name_or_path::NameOrPath;
use crate::arguments::scored_text;
use crate::arguments::scored_text::ScoredText;
use crate::commands::perplexity::{bits_per_byte, divergence_rows, lines};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::screen::{progress, report};
use crate::{interrupt, output};
use clap::Args;
use indicatif::ProgressBar;
use menagerie::engine::TextPipeline;
use menagerie::measure::{
    Against, BenchOptions, PerplexityOptions, PerplexityResult, Rate, TextChunks, bench, perplexity,
};
use menagerie::open::LoadedModel;
use menagerie::registry::Environment;
use serde_json::{Value, json};
use std::time::Instant;

/// Compare two models on a text: perplexity, divergence, size and speed
///
/// MODEL is the base: the Kullback-Leibler divergence is that of OTHER from MODEL, token by token, if both have the same
/// vocabulary. Bits per byte can be compared for any two models. Options apply to both models, except that --quant and
/// --imatrix apply to OTHER only: `compare M M --quant q4_k_m` shows the loss from quantizing M.
#[derive(Args)]
pub(crate) struct CompareCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// The other model
    other: NameOrPath,
    #[command(flatten)]
    text: ScoredText,
    /// Tokens of the prompt for measuring the speed; 0 = do not measure
    #[arg(short = 'p', long, default_value_t = 512)]
    prompt: usize,
    /// Generated tokens for measuring the speed; 0 = do not measure
    #[arg(short = 'n', long, default_value_t = 64)]
    generate: usize,
    /// Number of measurements of each speed
    #[arg(short = 'r', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// An open model and the time that opening took.
struct OpenModel {
    name: String,
    pipeline: LoadedModel<TextPipeline>,
    seconds: f64,
}

/// The measurements of one model.
struct ModelReport {
    name: String,
    bytes: u64,
    parameters: u64,
    seconds: f64,
    made: PerplexityResult,
    bits: f64,
    prompt: Option<Rate>,
    generate: Option<Rate>,
}

impl Runnable for CompareCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let text = self.text.read()?;
        let (first, second) = self.open(&context.environment)?;
        let chunks = |opened: &OpenModel| -> Result<TextChunks, Failure> {
            let context = self.text.ctx_size as usize;
            Ok(TextChunks::of_text(&**opened.pipeline.tokenizer()?, &text, context, self.text.chunks())?)
        };
        let own = [chunks(&first)?, chunks(&second)?];
        let bar = progress::spinner("scoring");
        let base = self.score(&first, &own[0], Against::Nothing, &bar);
        // Only distributions over the same tokens can be compared.
        let (one, other) = (first.pipeline.engine(), second.pipeline.engine());
        let alike = own[0] == own[1] && one.vocabulary() == other.vocabulary();
        let against = if alike { Against::Model(one) } else { Against::Nothing };
        let held = base.and_then(|base| Ok((base, self.score(&second, &own[1], against, &bar)?)));
        let sides = held.and_then(|(base, held)| {
            Ok([self.side(&first, base, &own[0], &bar)?, self.side(&second, held, &own[1], &bar)?])
        });
        bar.finish_and_clear();
        let sides = sides?;
        if !alike {
            report::note("the vocabularies differ: no divergence is computed; compare bits per byte instead");
        }
        if self.json { output::json(&json(&sides)) } else { output::write(&table(&sides)) }
    }
}

impl CompareCommand {
    /// Opens both models; only the second one is quantized while loading.
    fn open(&self, installed: &Environment) -> Result<(OpenModel, OpenModel), Failure> {
        let longest = (self.text.ctx_size as usize).max(self.prompt).max(self.generate);
        let open = |mut model: ModelArguments| -> Result<OpenModel, Failure> {
            model.exactly(longest);
            let opening = model.opening(installed)?;
            let begun = Instant::now();
            let pipeline = opening.open_text()?;
            let name = match model.quant_name() {
                Some(quant) => format!("{} as {quant}", model.model),
                None => model.model.to_string(),
            };
            Ok(OpenModel { name, pipeline, seconds: begun.elapsed().as_secs_f64() })
        };
        let first = open(self.model.unquantized())?;
        let mut other = self.model.clone();
        other.model.clone_from(&self.other);
        let second = open(other)?;
        Ok((first, second))
    }

    fn score<'a>(
        &self,
        opened: &OpenModel,
        chunks: &'a TextChunks,
        against: Against<'a>,
        bar: &ProgressBar,
    ) -> Result<PerplexityResult, Failure> {
        let threads = self.model.load_options().placement.threads;
        let options = PerplexityOptions::default().with_threads(threads).with_cancel(interrupt::flag()?);
        let made = perplexity(&opened.pipeline, chunks, against, &options, &mut |at| {
            progress::say(bar, &format!("{}: {}", opened.name, scored_text::message(&at)));
        });
        Ok(made?)
    }

    fn side(
        &self,
        opened: &OpenModel,
        made: PerplexityResult,
        chunks: &TextChunks,
        bar: &ProgressBar,
    ) -> Result<ModelReport, Failure> {
        let pipeline = &opened.pipeline;
        let options = BenchOptions::default()
            .with_prompt(self.prompt)
            .with_generate(self.generate)
            .with_depth(0)
            .with_repetitions(self.repetitions as usize)
            .with_warm_up(true)
            .with_cancel(interrupt::flag()?);
        let measured = self.prompt + self.generate > 0;
        let speed = measured.then(|| {
            bench(pipeline, &options, &mut |_| {
                progress::say(bar, &format!("{}: measuring the speed", opened.name))
            })
        });
        let speed = speed.transpose()?;
        let entries = pipeline.resolved().tensors.entries();
        Ok(ModelReport {
            name: opened.name.clone(),
            bytes: entries.iter().map(|tensor| tensor.bytes).sum(),
            parameters: entries.iter().map(|tensor| tensor.dims.iter().product::<u64>()).sum(),
            seconds: opened.seconds,
            bits: bits_per_byte(&made, chunks.scored_bytes(&**pipeline.tokenizer()?)?),
            made,
            prompt: speed.as_ref().and_then(|speed| speed.prompt.clone()),
            generate: speed.and_then(|speed| speed.generate),
        })
    }
}

fn bits_per_weight(side: &ModelReport) -> f64 {
    side.bytes as f64 * 8.0 / side.parameters.max(1) as f64
}

fn json(sides: &[ModelReport; 2]) -> Value {
    let side = |side: &ModelReport| {
        json!({
            "model": side.name, "bytes": side.bytes, "parameters": side.parameters,
            "bits_per_weight": bits_per_weight(side), "load_seconds": side.seconds,
            "perplexity": side.made.perplexity.value, "error": side.made.perplexity.error,
            "nll": side.made.nll.value, "bits_per_byte": side.bits, "scored_tokens": side.made.scored,
            "pp_tokens_per_second": side.prompt, "tg_tokens_per_second": side.generate,
        })
    };
    json!({
        "ctx_size": sides[0].made.context, "chunks": sides[0].made.chunks,
        "a": side(&sides[0]), "b": side(&sides[1]), "divergence": sides[1].made.divergence,
    })
}

fn table(sides: &[ModelReport; 2]) -> String {
    let row = |name: &str, of: &dyn Fn(&ModelReport) -> String| {
        let cells = sides.each_ref().map(of);
        vec![name.to_owned(), format!("{:<24}", cells[0]), cells[1].clone()]
    };
    let rate =
        |rate: Option<&Rate>| rate.map_or("-".to_owned(), |rate| format!("{:.1} tokens/s", rate.median));
    let mut rows = vec![
        row("", &|side| side.name.clone()),
        row("size of the weights", &|side| output::bytes(side.bytes)),
        row("bits per weight", &|side| format!("{:.2}", bits_per_weight(side))),
        row("load", &|side| format!("{:.2} s", side.seconds)),
        row("prompt", &|side| rate(side.prompt.as_ref())),
        row("generation", &|side| rate(side.generate.as_ref())),
        row("perplexity", &|side| {
            format!("{:.4} \u{b1} {:.4}", side.made.perplexity.value, side.made.perplexity.error)
        }),
        row("bits per byte", &|side| format!("{:.4}", side.bits)),
    ];
    if let Some(divergence) = &sides[1].made.divergence {
        // The perplexity of the base is above.
        let of_second = divergence_rows(divergence).into_iter().skip(1);
        rows.extend(of_second.map(|row| vec![row[0].clone(), format!("{:<24}", ""), row[1].clone()]));
    }
    let text = lines(&rows);
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
