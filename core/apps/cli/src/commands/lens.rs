//! `lens MODEL [PROMPT]`: what each layer would predict if it were the last one.

use crate::arguments::hooks::HookArguments;
use crate::arguments::layer_range::{layer_range, position_range};
use crate::arguments::model::ModelArguments;
use crate::arguments::template::TemplateArguments;
use crate::chat::answer::{self, EncodedPrompt, RunPrompt};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::listing::lens_listing::LensListing;
use crate::screen::style::OutputStream;
use crate::{interrupt, output, prompt};
use clap::Args;
use menagerie::engine::{
    LensOptions, LensTable, LogitLens, RenderOptions, Request, StopReason, TextPipeline,
};
use menagerie::open::LoadedModel;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

/// Width of output that is not a terminal.
const WIDTH: usize = 79;

/// Show what each layer would predict if it were the last one: a logit lens
///
/// The rows after each layer go through the model's own final norm and head. The table has a column for each token of the
/// prompt and a row for each layer: the most likely next token there, with its probability. The last row is the prediction of
/// the model itself. --top N lists N tokens of each layer, and the rank of the token that the model predicts. The prompt is
/// plain text; --chat renders it with the chat template.
#[derive(Args)]
pub(crate) struct LensCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    hooks: HookArguments,
    /// The text; - for standard input [default: standard input]
    prompt: Option<String>,
    /// Read the text from a file; - for standard input
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<PathBuf>,
    /// Token ids separated by commas instead of a text, without added special tokens
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with_all = ["prompt", "file"])]
    tokens: Vec<u32>,
    /// Render the text as a message with the chat template
    #[arg(long, conflicts_with = "tokens")]
    chat: bool,
    /// Also read an answer of at most this many tokens, always the most likely ones
    #[arg(short = 'n', long = "max-tokens", value_name = "TOKENS", default_value_t = 0)]
    max_tokens: usize,
    /// List this many tokens of each layer instead of the table; at most 100
    #[arg(long, value_name = "N", default_value_t = 1)]
    top: usize,
    /// Only these layers, counted from 0: A-B (inclusive) or A, separated by commas [default: all]
    #[arg(long, value_name = "A-B,..", value_delimiter = ',', value_parser = layer_range)]
    layers: Vec<RangeInclusive<usize>>,
    /// Only these positions of tokens, counted from 0: A-B (inclusive) or A, separated by commas [default: all]
    #[arg(long, value_name = "A-B,..", value_delimiter = ',', value_parser = position_range)]
    positions: Vec<RangeInclusive<usize>>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The JSON output.
#[derive(Serialize)]
struct LensReport<'a> {
    model: String,
    architecture: &'a str,
    #[serde(flatten)]
    table: &'a LensTable,
}

impl Runnable for LensCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let text = match self.tokens.is_empty() {
            true => Some(self.text()?),
            false => None,
        };
        self.hooks.check(installed)?;
        let mut pipeline = self.model.opening(installed)?.open_text()?;
        self.hooks.install(&mut pipeline, installed)?;
        let prompt = match text {
            Some(text) => {
                let asked = RunPrompt {
                    text: &text,
                    raw: !self.chat,
                    system: None,
                    options: RenderOptions::default(),
                };
                answer::prompt(&pipeline, asked, &TemplateArguments::default())?
            }
            None => EncodedPrompt::Plain(self.tokens.clone()),
        };
        let table = self.read(&pipeline, &prompt)?;
        if table.rows.is_empty() {
            return Err(self.no_rows(prompt.tokens().len()));
        }
        if self.json {
            let (model, architecture) = (self.model.model.to_string(), pipeline.architecture());
            return output::json(&LensReport { model, architecture, table: &table });
        }
        let columns = OutputStream::Out.columns().unwrap_or(WIDTH);
        let listing = LensListing { table: &table, columns };
        output::painted(&if self.top > 1 { listing.lists() } else { listing.grid() })
    }

    fn staged_model(&self) -> Option<&ModelArguments> {
        Some(&self.model)
    }
}

impl LensCommand {
    fn text(&self) -> Result<String, Failure> {
        let text = prompt::of_process(self.prompt.as_deref(), self.file.as_deref())?.unwrap_or_default();
        if text.is_empty() {
            return Err(Failure::Usage("the text is missing".to_owned()).with_help(
                "give it as an argument, with -f FILE, on standard input, or token ids with --tokens",
            ));
        }
        Ok(text)
    }

    /// Computes the prompt and the answer under the lens.
    fn read(
        &self,
        pipeline: &LoadedModel<TextPipeline>,
        prompt: &EncodedPrompt,
    ) -> Result<LensTable, Failure> {
        let engine = pipeline.engine();
        let layers = within(&self.layers, engine.model.shape().n_layers.saturating_sub(1), |last| {
            Failure::Usage(format!("--layers: the last layer of this model is {last}"))
        })?;
        let positions = within(&self.positions, pipeline.context().saturating_sub(1), |last| {
            Failure::Usage(format!("--positions: the last position of the context is {last}"))
        })?;
        let options = LensOptions::default().with_top(self.top).with_layers(layers).with_positions(positions);
        let lens = Arc::new(LogitLens::new(engine, options)?);
        // A token that is sampled and not shown computes the whole prompt.
        let request = Request::greedy(self.max_tokens.max(1))
            .with_lens(Arc::clone(&lens))
            .with_cancel(interrupt::flag()?);
        let outcome = pipeline.session()?.generate(prompt, &request, |_| ())?;
        if outcome.reason == StopReason::Cancelled {
            return Err(Failure::Interrupted);
        }
        let answer = outcome.tokens.iter().take(self.max_tokens);
        let tokens: Vec<u32> = prompt.tokens().iter().chain(answer).copied().collect();
        let names = pipeline.tokenizer().ok().map(|tokenizer| &**tokenizer);
        Ok(LensTable::new(&lens.rows(), &tokens, prompt.tokens().len(), names))
    }

    fn no_rows(&self, prompt: usize) -> Failure {
        let last = prompt.saturating_sub(1);
        Failure::Usage(format!(
            "--positions: none of them was computed; the last position of the prompt is {last}, and the last token of an \
             answer is not computed"
        ))
    }
}

/// The numbers of some ranges, none of which is past `last`; `None` without ranges.
fn within(
    ranges: &[RangeInclusive<usize>],
    last: usize,
    refused: impl Fn(usize) -> Failure,
) -> Result<Option<BTreeSet<usize>>, Failure> {
    if ranges.iter().any(|range| *range.end() > last) {
        return Err(refused(last));
    }
    Ok((!ranges.is_empty()).then(|| ranges.iter().cloned().flatten().collect()))
}
