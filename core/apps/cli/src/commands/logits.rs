//! `logits MODEL`: writes logits to a safetensors file.

use crate::arguments::capture::ActiveCapture;
use crate::arguments::hooks::HookArguments;
use crate::arguments::model::ModelArguments;
use crate::arguments::stages::StageArguments;
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file::{OutputFile, may_write};
use crate::screen::report;
use crate::{interrupt, output};
use clap::{ArgAction, Args};
use menagerie::engine::{GenerateError, ScalingLog, TextPipeline};
use menagerie::measure::{LogitsOptions, logits_by_step};
use menagerie::model::LayerHook;
use serde_json::json;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Write the logits of every position to a safetensors file: `tokens` i64 [T], `logits` f32 [T, V]
///
/// With an X-LoRA the file also has the outputs of its classifier for every adapter, `scalings` f32 [T, layers, adapters],
/// before the selection of the largest (top_k_lora).
#[derive(Args)]
pub(crate) struct LogitsCommand {
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    stages: StageArguments,
    #[command(flatten)]
    hooks: HookArguments,
    /// Token ids separated by commas, without added special tokens
    #[arg(long, value_name = "IDS", value_delimiter = ',', value_parser = token_id, required_unless_present = "prompt")]
    tokens: Vec<u32>,
    /// Text instead of token ids; BOS and EOS are added as the model file says
    #[arg(long, value_name = "TEXT", conflicts_with = "tokens")]
    prompt: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Write activations to a .safetensors file that `check --reference` can read. WHAT is a comma-separated list of
    /// layers=A-B or layers=all, at=PLACE (l_out, attn_out, ffn_out, last_out; several with |) and phase=prefill or
    /// phase=decode
    #[arg(long, hide_short_help = true, num_args = 2, action = ArgAction::Set, value_names = ["WHAT", "FILE"])]
    capture: Vec<OsString>,
    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
    /// Decode the tokens from this index on one at a time, using the cache
    #[arg(long, hide_short_help = true, value_name = "INDEX")]
    decode_from: Option<usize>,
}

impl Runnable for LogitsCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        let arguments = self.model.staged(&self.stages, installed)?;
        let opening = arguments.opening(installed)?;
        let model = opening.path();
        may_write(&self.out, self.force, &[model])?;
        let capture = ActiveCapture::ask(&self.capture, self.force, model)?;
        self.hooks.check(installed)?;
        let mut pipeline = opening.open_text()?;
        self.hooks.install(&mut pipeline, installed)?;
        let layers = pipeline.engine().model.shape().n_layers;
        let capture = capture.map(|asked| asked.begin(layers, pipeline.hooks_mut())).transpose()?;
        let tokens = self.token_ids(&pipeline)?;
        if let Some(index) = self.decode_from.filter(|&index| index >= tokens.len()) {
            let last = tokens.len().saturating_sub(1);
            return Err(Failure::Usage(format!("--decode-from {index} is after the last token, {last}")));
        }
        let options = LogitsOptions::default()
            .with_chunk(self.model.load_options().context.chunk)
            .with_decode_from(self.decode_from);
        let vocabulary = pipeline.vocabulary();
        let mut file = OutputFile::create(&self.out, self.force, &[model])?;
        self.write(&pipeline, &tokens, &options, &mut file)?;
        let is_device = file.is_device();
        file.commit()?;
        if let Some(capture) = capture {
            capture.finish(&pipeline, &tokens)?;
        }
        let scalings = pipeline.engine().model.scaling_shape();
        let scalings =
            scalings.map(|[layers, adapters]| format!(", scalings [{}, {layers}, {adapters}]", tokens.len()));
        let scalings = scalings.unwrap_or_default();
        let said = format!("{}: logits [{}, {vocabulary}]{scalings}", self.out.display(), tokens.len());
        // A device may be standard output.
        if is_device {
            report::note(&said);
            return Ok(());
        }
        output::line(&said)
    }

    fn staged_model(&self) -> Option<&ModelArguments> {
        Some(&self.model)
    }
}

impl LogitsCommand {
    /// Writes the safetensors file (length of the header, header, tokens, logits), each row as it is computed.
    fn write(
        &self,
        pipeline: &TextPipeline,
        tokens: &[u32],
        options: &LogitsOptions,
        file: &mut OutputFile,
    ) -> Result<(), Failure> {
        let about = |error: std::io::Error| Failure::about(self.out.display(), error);
        let vocabulary = pipeline.vocabulary();
        let cancel = interrupt::flag()?;
        let mut out = BufWriter::new(file);
        let shape = pipeline.engine().model.scaling_shape();
        out.write_all(&head(tokens, vocabulary, shape)).map_err(about)?;
        let log = shape.map(|shape| Arc::new(ScalingLog::new(shape, tokens.len())));
        let mut watched = pipeline.clone();
        log.iter().for_each(|log| watched.add_hook(Arc::clone(log) as Arc<dyn LayerHook>));
        let (mut failed, mut row) = (None, 0);
        let computed = logits_by_step(&watched, tokens, options, &mut |rows| {
            let stop = if cancel.load(Ordering::SeqCst) { Err(Failure::Interrupted) } else { Ok(()) };
            let written = stop.and_then(|()| self.check(rows, row, vocabulary)).and_then(|()| {
                rows.iter().try_for_each(|value| out.write_all(&value.to_le_bytes())).map_err(about)
            });
            row += rows.len() / vocabulary.max(1);
            written.map_err(|failure| {
                failed = Some(failure);
                GenerateError::Cancelled
            })
        });
        if let Some(failed) = failed {
            return Err(failed);
        }
        computed?;
        for value in log.iter().flat_map(|log| log.values()) {
            out.write_all(&value.to_le_bytes()).map_err(about)?;
        }
        out.flush().map_err(about)
    }

    /// Refuses logits that are not finite.
    fn check(&self, rows: &[f32], first: usize, vocabulary: usize) -> Result<(), Failure> {
        let Some(place) = rows.iter().position(|value| !value.is_finite()) else { return Ok(()) };
        let (row, id) = (first + place / vocabulary, place % vocabulary);
        let reason = format!("the logit of token {id} at position {row} is {}", rows[place]);
        Err(Failure::about(&self.model.model, reason).with_help(
            "try --kv-type f32, in case the KV cache overflows; otherwise the weights are damaged",
        ))
    }

    fn token_ids(&self, pipeline: &TextPipeline) -> Result<Vec<u32>, Failure> {
        match &self.prompt {
            Some(prompt) => Ok(pipeline.tokenizer()?.encode_prompt(prompt)?),
            None => Ok(self.tokens.clone()),
        }
    }
}

fn token_id(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a token id"))
}

/// The part of the file before the logits; scalings `[layers, adapters]` come after them.
fn head(tokens: &[u32], vocabulary: usize, scalings: Option<[usize; 2]>) -> Vec<u8> {
    let first = 8 * tokens.len();
    let second = first + 4 * tokens.len() * vocabulary;
    let mut header = json!({
        "tokens": { "dtype": "I64", "shape": [tokens.len()], "data_offsets": [0, first] },
        "logits": { "dtype": "F32", "shape": [tokens.len(), vocabulary], "data_offsets": [first, second] },
    });
    if let Some([layers, adapters]) = scalings {
        let last = second + 4 * tokens.len() * layers * adapters;
        let shape = [tokens.len(), layers, adapters];
        header["scalings"] = json!({ "dtype": "F32", "shape": shape, "data_offsets": [second, last] });
    }
    let header = header.to_string();
    // Padded with spaces, so that the data begins at a multiple of eight.
    let padded = header.len().next_multiple_of(8);
    let mut bytes = (padded as u64).to_le_bytes().to_vec();
    bytes.extend(format!("{header:<padded$}").into_bytes());
    bytes.extend(tokens.iter().flat_map(|&id| i64::from(id).to_le_bytes()));
    bytes
}
