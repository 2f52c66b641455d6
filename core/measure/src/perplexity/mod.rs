//! [`perplexity()`]: how well a model predicts a text, computed like llama.cpp's `llama-perplexity`.
//!
//! The tokens of the text are cut into chunks of the length of the context; an incomplete chunk is left out. The first
//! token of each chunk is replaced by the beginning token, if the model has one. Rows from the middle of a chunk on are
//! scored, so each has at least half a context before it (tools/perplexity/perplexity.cpp).

mod base_file;
mod divergence;
mod scoring;

pub use base_file::{BaseReader, BaseText, BaseWriter, encode_row};
pub use divergence::{Divergence, Estimate};

use base_file::{LEAST, other_vocabulary};
use menagerie_engine::{
    Engine, Evaluation, GenerateError, LogitRows, PipelineHooks, RequestKind, Scheduler, SchedulerOptions,
    TextPipeline, Tokenizing, setters,
};
use menagerie_kernels::{KernelError, Pool};
use menagerie_model::ModelError;
use scoring::{Compared, compare, log_softmax, over_rows, surprise};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The tokens of a text in chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextChunks {
    context: usize,
    beginning: Option<u32>,
    tokens: Vec<u32>,
}

impl TextChunks {
    /// Cuts tokens into whole chunks of `context`, at most `most` of them. `beginning` replaces the first token of
    /// each.
    ///
    /// # Errors
    /// Chunks that are too short to score a row, or too few tokens for a chunk.
    pub fn new(
        mut tokens: Vec<u32>,
        beginning: Option<u32>,
        context: usize,
        most: Option<usize>,
    ) -> Result<Self, GenerateError> {
        if context < 4 {
            return Err(GenerateError::Options(format!(
                "chunks of {context} tokens leave nothing to score; use 4 or more (--ctx-size)"
            )));
        }
        let chunks = (tokens.len() / context).min(most.unwrap_or(usize::MAX));
        if chunks == 0 {
            return Err(GenerateError::Options(format!(
                "the text has {} tokens, but a chunk {context}; use a longer text or shorter chunks (--ctx-size)",
                tokens.len()
            )));
        }
        tokens.truncate(chunks * context);
        Ok(Self { context, beginning, tokens })
    }

    /// The chunks of a text.
    ///
    /// # Errors
    /// As [`Self::new`]; a text that cannot be tokenized.
    pub fn of_text(
        tokenizer: &dyn Tokenizing,
        text: &str,
        context: usize,
        most: Option<usize>,
    ) -> Result<Self, GenerateError> {
        let beginning = tokenizer.beginning();
        let tokens = beginning.into_iter().chain(tokenizer.encode(text)?).collect();
        Self::new(tokens, beginning, context, most)
    }

    /// Tokens of a chunk.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The number of chunks.
    pub fn count(&self) -> usize {
        self.tokens.len() / self.context
    }

    /// The tokens of all chunks as in the text.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The rows of a chunk that are scored.
    fn scored(&self) -> Range<usize> {
        self.context / 2..self.context - 1
    }

    /// The tokens of a chunk as they are computed, with the beginning token.
    pub(crate) fn fed(&self, chunk: usize) -> Vec<u32> {
        let mut tokens = self.tokens[chunk * self.context..(chunk + 1) * self.context].to_vec();
        if let Some(beginning) = self.beginning {
            tokens[0] = beginning;
        }
        tokens
    }

    /// The bytes of the text of the scored tokens, which make models with different vocabularies comparable.
    ///
    /// # Errors
    /// A token that is not in the vocabulary.
    pub fn scored_bytes(&self, tokenizer: &dyn Tokenizing) -> Result<usize, GenerateError> {
        let mut bytes = 0;
        for chunk in self.tokens.chunks_exact(self.context) {
            let mut stream = tokenizer.stream();
            // With the token before, because some vocabularies drop a space at the beginning of a text.
            stream.push(chunk[self.scored().start])?;
            for &id in &chunk[self.scored().start + 1..] {
                bytes += stream.push(id)?.len();
            }
            bytes += stream.finish().len();
        }
        Ok(bytes)
    }
}

/// What rows are compared with.
pub enum Against<'a> {
    /// Nothing.
    Nothing,
    /// Nothing: their log-probabilities are written as a base.
    Save(&'a mut dyn Write),
    /// A base file.
    Base(&'a mut BaseReader),
    /// Another model as the base.
    Model(&'a Arc<Engine>),
}

/// How a text is scored.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PerplexityOptions {
    /// Threads that compute scores from logits. `None`: the cores that the process may use.
    pub threads: Option<usize>,
    /// A flag that cancels.
    pub cancel: Option<Arc<AtomicBool>>,
}

setters! { PerplexityOptions:
    with_threads(threads: impl Into<Option<usize>>),
    with_cancel(cancel: impl Into<Option<Arc<AtomicBool>>>),
}

/// The progress of scoring.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PerplexityProgress {
    /// The number of scored chunks.
    pub chunk: usize,
    /// The number of all chunks.
    pub chunks: usize,
    /// Perplexity so far.
    pub perplexity: f64,
    /// Mean divergence from the base so far, if there is a base.
    pub kl: Option<f64>,
}

/// The scores of a text.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct PerplexityResult {
    /// Tokens of a chunk.
    pub context: usize,
    /// The number of chunks.
    pub chunks: usize,
    /// The number of scored tokens.
    pub scored: usize,
    /// `exp` of the mean negative log-probability, with the propagated standard error of the mean.
    pub perplexity: Estimate,
    /// Mean negative log-probability of a token, in nats.
    pub nll: Estimate,
    /// Perplexity after each chunk.
    pub running: Vec<f64>,
    /// The divergence of the model from a base.
    pub divergence: Option<Divergence>,
}

/// Scores a text; `on_chunk` is called after each chunk.
///
/// # Errors
/// A context that is too small for the chunks, a base of another text or vocabulary, cancellation, or an error of a
/// model.
pub fn perplexity(
    pipeline: &TextPipeline,
    chunks: &TextChunks,
    against: Against,
    options: &PerplexityOptions,
    on_chunk: &mut dyn FnMut(PerplexityProgress),
) -> Result<PerplexityResult, GenerateError> {
    let mut run = ChunkRun::new(pipeline, chunks, options)?;
    let mut held = ComparisonBase::new(pipeline.engine(), chunks, against, options)?;
    let mut rows = Vec::new();
    let mut running = Vec::new();
    for chunk in 0..chunks.count() {
        run.chunk(chunk, &mut held, &mut rows)?;
        let nll = Estimate::mean(rows.iter().map(|row: &Compared| row.nll));
        running.push(libm::exp(nll.value));
        let kl = held.is_base().then(|| Estimate::mean(rows.iter().map(|row| row.kl)).value);
        on_chunk(PerplexityProgress {
            chunk: chunk + 1,
            chunks: chunks.count(),
            perplexity: libm::exp(nll.value),
            kl,
        });
    }
    held.finish()?;
    let nll = Estimate::mean(rows.iter().map(|row| row.nll));
    Ok(PerplexityResult {
        context: chunks.context,
        chunks: chunks.count(),
        scored: rows.len(),
        perplexity: nll.exponential(),
        nll,
        running,
        divergence: held.is_base().then(|| Divergence::of(&rows)),
    })
}

/// A model that computes chunks; each chunk is a request.
struct Feeder<'a> {
    chunks: &'a TextChunks,
    evaluation: Evaluation<'a>,
    width: usize,
}

impl<'a> Feeder<'a> {
    fn new(
        engine: &Arc<Engine>,
        hooks: PipelineHooks,
        chunks: &'a TextChunks,
        cancel: Option<&'a AtomicBool>,
    ) -> Result<Self, GenerateError> {
        let room = SchedulerOptions::default()
            .with_sequences(1)
            .with_prefixes(0)
            .with_capacity_tokens(chunks.context)
            .with_step_tokens(engine.chunk.min(chunks.context));
        let scheduler = Scheduler::new(Arc::clone(engine), hooks, room)?;
        let evaluation = Evaluation::new(scheduler, RequestKind::Perplexity, cancel)?;
        Ok(Self { chunks, evaluation, width: engine.vocabulary() })
    }

    fn begin(&mut self, chunk: usize, first: usize) -> Result<(), GenerateError> {
        self.evaluation.begin(&self.chunks.fed(chunk), LogitRows::From(first))
    }

    /// The logits of the next step that has logits. The request ends after the last step.
    fn step(&mut self) -> Result<Vec<f32>, GenerateError> {
        let mut rows = Vec::new();
        while rows.is_empty() && self.evaluation.is_pending() {
            self.evaluation.step(&mut |output| {
                rows.extend_from_slice(output.logits()?);
                Ok(())
            })?;
        }
        if !self.evaluation.is_pending() {
            self.evaluation.end();
        }
        Ok(rows)
    }
}

/// The model that is scored.
struct ChunkRun<'a> {
    feeder: Feeder<'a>,
    pool: Pool,
}

impl<'a> ChunkRun<'a> {
    fn new(
        pipeline: &TextPipeline,
        chunks: &'a TextChunks,
        options: &'a PerplexityOptions,
    ) -> Result<Self, GenerateError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = Pool::new(options.threads.unwrap_or(cores)).map_err(failed)?;
        let feeder =
            Feeder::new(pipeline.engine(), pipeline.hooks().clone(), chunks, options.cancel.as_deref())?;
        Ok(Self { feeder, pool })
    }

    /// Scores the rows of a chunk.
    fn chunk(
        &mut self,
        chunk: usize,
        held: &mut ComparisonBase,
        rows: &mut Vec<Compared>,
    ) -> Result<(), GenerateError> {
        let Range { start: mut row, end } = self.feeder.chunks.scored();
        self.feeder.begin(chunk, row)?;
        held.begin(chunk, row)?;
        let own = &self.feeder.chunks.tokens[chunk * self.feeder.chunks.context..];
        while self.feeder.evaluation.is_pending() {
            let values = self.feeder.step()?;
            let count = values.len() / self.feeder.width.max(1);
            let scored = count.min(end - row);
            let step =
                ScoredStep { values, width: self.feeder.width, tokens: &own[row + 1..row + 1 + scored] };
            rows.extend(held.score(&self.pool, &step)?);
            row += scored;
        }
        Ok(())
    }
}

/// The rows of a step, and the next tokens of the rows that are scored.
struct ScoredStep<'a> {
    values: Vec<f32>,
    width: usize,
    tokens: &'a [u32],
}

impl ScoredStep<'_> {
    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// What rows are compared with, and its state.
enum ComparisonBase<'a, 'c> {
    Nothing,
    Save(BaseWriter<&'a mut dyn Write>),
    Base(&'a mut BaseReader),
    /// The base model, and its rows that were computed ahead.
    Model(Box<Feeder<'c>>, Vec<f32>),
}

impl<'a, 'c> ComparisonBase<'a, 'c> {
    fn new(
        engine: &Arc<Engine>,
        chunks: &'c TextChunks,
        against: Against<'a>,
        options: &'c PerplexityOptions,
    ) -> Result<Self, GenerateError> {
        let vocabulary = engine.vocabulary();
        Ok(match against {
            Against::Nothing => Self::Nothing,
            Against::Save(sink) => {
                let tokens = chunks.tokens.clone();
                Self::Save(BaseWriter::begin(
                    sink,
                    &BaseText { context: chunks.context, vocabulary, tokens },
                )?)
            }
            Against::Base(reader) => {
                let BaseText { context, tokens, .. } = reader.text(vocabulary)?;
                if *context != chunks.context || !tokens.starts_with(&chunks.tokens) {
                    return Err(GenerateError::Options(format!(
                        "the base is of another text, or of chunks of {context} tokens; \
                         leave the text out to use that of the base"
                    )));
                }
                Self::Base(reader)
            }
            Against::Model(base) if base.vocabulary() != vocabulary => {
                return Err(other_vocabulary(base.vocabulary(), vocabulary));
            }
            Against::Model(base) => {
                let (hooks, cancel) = (PipelineHooks::default(), options.cancel.as_deref());
                Self::Model(Box::new(Feeder::new(base, hooks, chunks, cancel)?), Vec::new())
            }
        })
    }

    fn is_base(&self) -> bool {
        matches!(self, Self::Base(_) | Self::Model(..))
    }

    fn begin(&mut self, chunk: usize, first: usize) -> Result<(), GenerateError> {
        match self {
            Self::Nothing | Self::Save(_) | Self::Base(_) => Ok(()),
            Self::Model(feeder, ahead) => {
                ahead.clear();
                feeder.begin(chunk, first)
            }
        }
    }

    fn score(&mut self, pool: &Pool, step: &ScoredStep) -> Result<Vec<Compared>, GenerateError> {
        let rows = step.tokens.len();
        let of_nll = |nll| Compared { nll, ..Compared::default() };
        match self {
            Self::Nothing => {
                let made = over_rows(pool, rows, &|row| of_nll(surprise(step.row(row), step.tokens[row])));
                made.map_err(failed)
            }
            Self::Save(writer) => {
                let made = over_rows(pool, rows, &|row| {
                    let mut values = step.row(row).to_vec();
                    let nll = surprise(&values, step.tokens[row]);
                    log_softmax(&mut values);
                    (of_nll(nll), encode_row(&values))
                });
                let (scores, stored): (Vec<_>, Vec<_>) = made.map_err(failed)?.into_iter().unzip();
                stored.iter().try_for_each(|row| writer.rows(row))?;
                Ok(scores)
            }
            Self::Base(reader) => {
                let stored = reader.rows(rows)?;
                let made = over_rows(pool, rows, &|row| {
                    let base = BaseReader::decode(&stored, row, step.width);
                    compare(step.row(row), &base, LEAST, step.tokens[row])
                });
                made.map_err(failed)
            }
            Self::Model(feeder, ahead) => {
                while ahead.len() < rows * step.width && feeder.evaluation.is_pending() {
                    ahead.extend(feeder.step()?);
                }
                pool.run_chunks(ahead, step.width, &|_, row| log_softmax(row)).map_err(failed)?;
                let base = |row: usize| &ahead[row * step.width..(row + 1) * step.width];
                let made = over_rows(pool, rows, &|row| {
                    compare(step.row(row), base(row), f32::NEG_INFINITY, step.tokens[row])
                });
                let made = made.map_err(failed)?;
                ahead.drain(..rows * step.width);
                Ok(made)
            }
        }
    }

    fn finish(&mut self) -> Result<(), GenerateError> {
        match self {
            Self::Save(writer) => writer.flush(),
            Self::Nothing | Self::Base(_) | Self::Model(..) => Ok(()),
        }
    }
}

fn failed(error: KernelError) -> GenerateError {
    GenerateError::Model(ModelError::backend("scoring", error))
}
