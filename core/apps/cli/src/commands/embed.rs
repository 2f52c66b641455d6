//! `embed MODEL [TEXT..]`: computes embeddings of texts.

use crate::arguments::metrics::MetricsArgument;
use crate::arguments::model::ModelArguments;
use crate::arguments::pooling::PoolingArgument;
use crate::arguments::truncation::{TruncationArgument, advised, note_cut};
use crate::commands::{CommandContext, Runnable};
use crate::failure::Failure;
use crate::output::output_file::{OutputFile, may_write};
use crate::screen::report;
use crate::{interrupt, output, prompt};
use clap::Args;
use menagerie::engine::{EmbeddingOptions, EmbeddingPipeline, GenerateError, Normalization, TextTokens};
use menagerie::model::Pooling;
use serde::Serialize;
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Compute embeddings of texts with an encoder, or with a language model without its head
///
/// Prints JSON, or writes `embedding` f32 [N, D] to a safetensors file. Several texts are computed in one batch and do not
/// affect each other; special tokens are added to each as the model file says. A reranker outputs its scores (see
/// `rerank`) unless --pooling is given.
#[derive(Args)]
pub(crate) struct EmbedCommand {
    #[command(flatten)]
    model: ModelArguments,
    /// Texts, one vector each; - for standard input [default: standard input]
    text: Vec<String>,
    /// Read the text from a file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Take each line of the file or of standard input as a text; empty lines are skipped
    #[arg(long, conflicts_with = "text")]
    lines: bool,
    /// Token ids separated by commas instead of text, without added special tokens (repeatable: one vector each)
    #[arg(long, value_name = "IDS", conflicts_with_all = ["text", "file", "lines"])]
    tokens: Vec<String>,
    /// Pooling of token vectors into one vector per text [default: from the model file]
    #[arg(long, value_enum, value_name = "HOW")]
    pooling: Option<PoolingArgument>,
    #[command(flatten)]
    truncation: TruncationArgument,
    /// Scale each vector to length 1
    #[arg(long)]
    normalize: bool,
    /// Write a safetensors file instead of JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "out")]
    force: bool,
    #[command(flatten)]
    metrics: MetricsArgument,
}

/// The JSON output.
#[derive(Serialize)]
struct EmbeddingReport {
    model: String,
    pooling: &'static str,
    normalized: bool,
    dimension: usize,
    /// Number of tokens of each text.
    tokens: Vec<usize>,
    /// Number of truncated tokens of each text (--truncate).
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated_tokens: Option<Vec<usize>>,
    /// A vector for each text; with pooling `none` one for each token, text after text.
    embedding: Vec<Vec<f64>>,
}

impl Runnable for EmbedCommand {
    fn run(self, context: &CommandContext) -> Result<(), Failure> {
        let installed = &context.environment;
        self.metrics.check()?;
        // Refused before anything is downloaded.
        self.model.refuse_lora()?;
        let opening = self.out.as_ref().map(|out| {
            let opening = self.model.opening(installed)?;
            may_write(out, self.force, &[opening.path()])?;
            Ok::<_, Failure>(opening)
        });
        let opening = opening.transpose()?;
        let given = if self.tokens.is_empty() { self.texts()? } else { Vec::new() };
        let opening = opening.map_or_else(|| self.model.opening(installed), Ok)?;
        let mut pipeline = opening.open_embedding()?;
        let metrics = self.metrics.watch(&mut pipeline)?;
        let sequences = self.sequences(&pipeline, &given)?;
        let pooling = self.pooling(&pipeline)?;
        note_cut("text", sequences.iter().map(|text| text.cut));
        let computed = self.computed(&pipeline, &sequences);
        metrics.write()?;
        let (rows, width) = computed?;
        match &self.out {
            Some(out) => self.write(out, &rows, width, opening.path()),
            None => output::json(&EmbeddingReport {
                model: pipeline.name().to_owned(),
                pooling,
                normalized: self.normalize,
                dimension: width,
                tokens: sequences.iter().map(|text| text.tokens.len()).collect(),
                truncated_tokens: (self.truncation.is_given())
                    .then(|| sequences.iter().map(|text| text.cut).collect()),
                embedding: rows
                    .chunks_exact(width.max(1))
                    .map(|row| row.iter().map(|x| output::shortest(*x)).collect())
                    .collect(),
            }),
        }
    }
}

impl EmbedCommand {
    fn texts(&self) -> Result<Vec<String>, Failure> {
        let given =
            match (&self.text[..], &self.file) {
                ([], file) => {
                    let whole = prompt::of_process(None, file.as_deref())?;
                    vec![whole.ok_or_else(|| {
                        Failure::Usage("no text: give TEXT, -f FILE or --tokens".to_owned())
                    })?]
                }
                ([one], _) if one == "-" => prompt::of_process(Some("-"), None)?.into_iter().collect(),
                (texts, _) => texts.to_vec(),
            };
        if !self.lines {
            return Ok(given);
        }
        let lines = given.iter().flat_map(|text| text.lines()).filter(|line| !line.trim().is_empty());
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        if lines.is_empty() {
            return Err(empty(0, 1));
        }
        Ok(lines)
    }

    /// The tokens of each text.
    fn sequences(&self, pipeline: &EmbeddingPipeline, texts: &[String]) -> Result<Vec<TextTokens>, Failure> {
        let truncation = self.truncation.truncation();
        if self.tokens.is_empty() {
            let tokens = texts.iter().enumerate().map(|(at, text)| {
                pipeline.tokens(text, truncation).map_err(|error| match error {
                    GenerateError::EmptyText => empty(at, texts.len()),
                    other => other.into(),
                })
            });
            return tokens.collect();
        }
        let id = |text: &str| {
            let wrong = || Failure::Usage(format!("--tokens: `{text}` is not a token id"));
            text.trim().parse().map_err(|_| wrong())
        };
        let context = pipeline.engine().context;
        let sequence = |ids: &String| {
            let ids: Vec<u32> = ids.split(',').map(id).collect::<Result<_, Failure>>()?;
            Ok(self.truncation.cut(ids, context))
        };
        self.tokens.iter().map(sequence).collect()
    }

    /// The name of the pooling method.
    ///
    /// # Errors
    /// Neither the option nor the file states it.
    fn pooling(&self, pipeline: &EmbeddingPipeline) -> Result<&'static str, Failure> {
        let model = &pipeline.engine().model;
        if model.classifier.is_some() && self.pooling.is_none() {
            return Ok("classifier");
        }
        let pooling = match (self.pooling, model.pooling) {
            (Some(asked), _) => asked.pooling(),
            (None, Pooling::None) => {
                let reason = "the file does not state the pooling of token vectors";
                return Err(Failure::about(&self.model.model, reason).with_help(
                    "use --pooling mean, cls or last; --pooling none outputs the vectors of all tokens",
                ));
            }
            (None, own) => own,
        };
        Ok(match pooling {
            Pooling::None => "none",
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
            Pooling::Last => "last",
        })
    }

    /// The vectors of all texts, one after the other, and their width.
    fn computed(
        &self,
        pipeline: &EmbeddingPipeline,
        sequences: &[TextTokens],
    ) -> Result<(Vec<f32>, usize), Failure> {
        let normalization = if self.normalize { Normalization::Euclidean } else { Normalization::None };
        let options = EmbeddingOptions::default()
            .with_pooling(self.pooling.map(PoolingArgument::pooling))
            .with_normalization(normalization);
        let sequences: Vec<&[u32]> = sequences.iter().map(|text| text.tokens.as_slice()).collect();
        let _at_once = interrupt::at_once()?;
        let vectors = pipeline.embed(&sequences, &options).into_iter().enumerate();
        let vectors = vectors.map(|(at, vector)| match vector {
            Err(error) if sequences.len() > 1 => {
                Err(Failure::about(format!("text {}", at + 1), advised(error)))
            }
            Err(error @ GenerateError::PastPositions { .. }) => Err(Failure::Failed(advised(error))),
            other => Ok(other?),
        });
        let vectors = vectors.collect::<Result<Vec<_>, Failure>>()?;
        let width = match self.pooling {
            Some(PoolingArgument::None) => pipeline.engine().model.body.shape.embedding_length,
            _ => vectors.first().map_or(0, Vec::len),
        };
        Ok((vectors.concat(), width))
    }

    fn write(
        &self,
        out: &std::path::Path,
        rows: &[f32],
        width: usize,
        model: &std::path::Path,
    ) -> Result<(), Failure> {
        let about = |error: std::io::Error| Failure::about(out.display(), error);
        let shape = [rows.len() / width.max(1), width];
        let mut file = OutputFile::create(out, self.force, &[model])?;
        let mut writer = BufWriter::new(&mut file);
        writer.write_all(&head(shape)).map_err(about)?;
        rows.iter().try_for_each(|value| writer.write_all(&value.to_le_bytes())).map_err(about)?;
        writer.flush().map_err(about)?;
        drop(writer);
        let is_device = file.is_device();
        file.commit()?;
        let said = format!("{}: embedding [{}, {}]", out.display(), shape[0], shape[1]);
        // A device may be standard output.
        if is_device {
            report::note(&said);
            return Ok(());
        }
        output::line(&said)
    }
}

/// The error for an empty text, the text number `at` of `count`.
fn empty(at: usize, count: usize) -> Failure {
    let which = if count > 1 { format!("text {}", at + 1) } else { "the text".to_owned() };
    Failure::Usage(format!("{which} is empty"))
        .with_help("give it as an argument, with -f FILE or on standard input; --lines skips empty lines")
}

/// The first part of a safetensors file: length of the header, header.
fn head([rows, width]: [usize; 2]) -> Vec<u8> {
    let header = json!({
        "embedding": { "dtype": "F32", "shape": [rows, width], "data_offsets": [0, 4 * rows * width] },
    });
    let header = header.to_string();
    // Padded with spaces, so that the data begins at a multiple of eight.
    let padded = header.len().next_multiple_of(8);
    let mut bytes = (padded as u64).to_le_bytes().to_vec();
    bytes.extend(format!("{header:<padded$}").into_bytes());
    bytes
}
