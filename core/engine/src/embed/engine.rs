//! [`EmbeddingEngine`]: token sequences to vectors. There is no cache: one step computes each sequence as a whole.

use crate::engine::{check_finite, check_vocabulary};
use crate::error::GenerateError;
use crate::hooks::{
    PipelineLifecycle, RequestArrival, RequestKind, RequestProgress, RequestStart, StepReport,
};
use crate::layers::through_layers;
use crate::output::{OutputRows, SequenceResult, StepOutput, StepResults, error_for_others};
use crate::setters::setters;
use crate::stats::SchedulerCounts;
use menagerie_model::{
    Compute, EmbeddingModel, InferenceStep, KvType, ModelError, PoolOptions, Pooling, RopeRegime,
    SequenceLayout, SequenceRows, StatePool, StepInput, TransformContext, WeightGuard,
};
use std::sync::Arc;
use std::time::Instant;

/// The normalization of a pooled vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalization {
    /// Divides it by its Euclidean length, so that the dot product of two vectors is their cosine.
    #[default]
    Euclidean,
    /// None.
    None,
}

/// How vectors are computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EmbeddingOptions {
    /// The pooling of the rows of a sequence; `None` = as the model was trained.
    pub pooling: Option<Pooling>,
    /// The normalization of the result.
    pub normalization: Normalization,
}

setters! { EmbeddingOptions:
    with_pooling(pooling: impl Into<Option<Pooling>>),
    with_normalization(normalization: Normalization),
}

/// The tokens of a text, or of a pair of texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmbeddingInput<'a> {
    pub(crate) tokens: &'a [u32],
    /// Where the second text starts, whose tokens have type 1.
    pub(crate) second: Option<usize>,
}

impl EmbeddingInput<'_> {
    fn types(&self) -> impl Iterator<Item = u32> {
        let first = self.second.unwrap_or(self.tokens.len());
        (0..self.tokens.len()).map(move |at| u32::from(at >= first))
    }
}

/// An encoder with everything that stays the same from call to call.
#[derive(Clone)]
pub struct EmbeddingEngine {
    /// The encoder.
    pub model: Arc<EmbeddingModel>,
    /// Backend and arithmetic.
    pub compute: Compute,
    /// The most tokens of a sequence.
    pub context: usize,
    /// The number of learned positions, if the model has them: the context cannot be larger.
    pub learned_positions: Option<usize>,
    /// The most rows of a step, unless one sequence has more.
    pub step_tokens: usize,
    /// Checks that the weights are still readable; called after each step.
    pub guard: Option<Arc<WeightGuard>>,
    /// Lifecycles to notify of requests, one request for each sequence, in order.
    pub lifecycles: Vec<Arc<dyn PipelineLifecycle>>,
}

impl EmbeddingEngine {
    /// A vector `[D]` for each sequence (all its rows `[T, D]` without pooling), or its error. A model with a
    /// classifier returns its scores instead, unless a pooling is requested.
    ///
    /// Several sequences share a step; none affects the others.
    pub fn embed(
        &self,
        sequences: &[&[u32]],
        options: &EmbeddingOptions,
    ) -> Vec<Result<Vec<f32>, GenerateError>> {
        let typed: Vec<EmbeddingInput> =
            sequences.iter().map(|tokens| EmbeddingInput { tokens, second: None }).collect();
        self.embed_typed(&typed, options, RequestKind::Embedding)
    }

    /// [`Self::embed`] of texts and pairs of texts, as requests of this kind.
    pub(crate) fn embed_typed(
        &self,
        sequences: &[EmbeddingInput],
        options: &EmbeddingOptions,
        kind: RequestKind,
    ) -> Vec<Result<Vec<f32>, GenerateError>> {
        let arrivals = sequences.iter().map(|_| RequestArrival::new(&self.lifecycles, kind)).collect();
        self.embed_arrived(sequences, arrivals, options)
    }

    /// [`Self::embed`] of texts and pairs of texts that have arrived as these requests.
    pub(crate) fn embed_arrived(
        &self,
        sequences: &[EmbeddingInput],
        arrivals: Vec<RequestArrival>,
        options: &EmbeddingOptions,
    ) -> Vec<Result<Vec<f32>, GenerateError>> {
        let mut results: Vec<Result<Vec<f32>, GenerateError>> =
            sequences.iter().map(|text| self.check(text.tokens).map(|()| Vec::new())).collect();
        let arrived = sequences.iter().zip(arrivals).zip(&results);
        let mut lives: Vec<Option<RequestProgress>> =
            arrived.map(|((text, arrival), checked)| begun(text, arrival, checked)).collect();
        let good: Vec<usize> = (0..sequences.len()).filter(|&index| results[index].is_ok()).collect();
        let mut rest = good.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.fitting(rest, sequences));
            let texts: Vec<EmbeddingInput> = now.iter().map(|&index| sequences[index]).collect();
            match self.step(&texts, options) {
                Ok(step) => self.share_out(step, now, self.normalization(options), &mut results),
                Err(error) => {
                    now.iter().for_each(|&index| results[index] = Err(error_for_others(&error)));
                    results[now[0]] = Err(error);
                }
            }
            for &index in now {
                if let Some(life) = lives[index].take() {
                    match &results[index] {
                        Ok(_) => life.computed(sequences[index].tokens.len()),
                        Err(error) => life.failed(error),
                    }
                }
            }
            rest = later;
        }
        results
    }

    fn check(&self, tokens: &[u32]) -> Result<(), GenerateError> {
        if tokens.is_empty() {
            return Err(GenerateError::EmptyPrompt);
        }
        if tokens.len() > self.context {
            return Err(GenerateError::too_long(tokens.len(), self.context, self.learned_positions));
        }
        check_vocabulary(tokens, self.model.embedding.vocabulary())
    }

    /// The number of the next sequences that share a step; at least one.
    fn fitting(&self, next: &[usize], sequences: &[EmbeddingInput]) -> usize {
        let mut rows = 0;
        let fits = |index: &&usize| {
            rows += sequences[**index].tokens.len();
            rows <= self.step_tokens
        };
        next.iter().take_while(fits).count().max(1)
    }

    /// Stores the rows of a step in the results; `places` are the indices of its sequences there.
    fn share_out(
        &self,
        step: StepResults,
        places: &[usize],
        normalization: Normalization,
        results: &mut [Result<Vec<f32>, GenerateError>],
    ) {
        let width = step.width();
        step.each(&mut |index, output| {
            let rows = output.and_then(StepOutput::embeddings);
            results[places[index]] = rows.and_then(|rows| finished(rows, width, normalization));
        });
    }

    /// The normalization that applies: scores are not normalized.
    fn normalization(&self, options: &EmbeddingOptions) -> Normalization {
        let scores = self.model.classifier.is_some() && options.pooling.is_none();
        if scores { Normalization::None } else { options.normalization }
    }

    /// One step of whole sequences: one row for each, or all rows without pooling.
    fn step(
        &self,
        texts: &[EmbeddingInput],
        options: &EmbeddingOptions,
    ) -> Result<StepResults, GenerateError> {
        let sequences: Vec<&[u32]> = texts.iter().map(|text| text.tokens).collect();
        let tokens = sequences.concat();
        let types: Vec<u32> = texts.iter().flat_map(EmbeddingInput::types).collect();
        let longest = sequences.iter().map(|tokens| tokens.len()).max().unwrap_or(1);
        // Keys and values of this step only. They are f32, because a smaller type saves nothing that lasts.
        let room = PoolOptions {
            capacity_tokens: tokens.len(),
            step_tokens: tokens.len(),
            ..PoolOptions::sequences(KvType::F32, sequences.len(), longest)
        };
        let specs = self.model.body.stack.states().to_vec();
        let mut pool = StatePool::new(&*self.compute.backend, specs, room)?;
        let layout = self.layout(&sequences, &mut pool)?;
        let pooling = options.pooling.unwrap_or(self.model.pooling);
        let began = Instant::now();
        let mut context =
            TransformContext::new(&self.compute, &layout, StepInput::Tokens(&tokens), &mut pool);
        context.token_types = Some(&types);
        let model = |context: &mut TransformContext| self.model.forward(options.pooling, context);
        let rows = through_layers(context, self.guard.as_ref(), model)?;
        let done = SchedulerCounts { steps: 1, rows: tokens.len() as u64, ..SchedulerCounts::default() };
        let (state_bytes, (pages_used, pages_free)) = (pool.bytes(), pool.pages());
        let report = StepReport { state_bytes, pages_used, pages_free, time: began.elapsed() };
        self.lifecycles.iter().for_each(|one| {
            one.stepped(&report);
            one.counted(&done);
        });
        let own = |(index, part): (usize, &SequenceRows)| {
            let rows = match pooling {
                Pooling::None => part.rows.clone(),
                Pooling::Mean | Pooling::Cls | Pooling::Last => index..index + 1,
            };
            SequenceResult { index, rows: Ok(OutputRows::Embeddings(rows)) }
        };
        Ok(StepResults::new(rows, layout.sequences().iter().enumerate().map(own).collect()))
    }

    fn layout(&self, sequences: &[&[u32]], pool: &mut StatePool) -> Result<SequenceLayout, ModelError> {
        let mut next = 0;
        let parts = sequences.iter().map(|tokens| {
            let (start, count) = (next, tokens.len());
            next += count;
            Ok(SequenceRows {
                sequence: pool.create()?,
                rows: start..next,
                first_position: 0,
                step: InferenceStep::Prefill {
                    chunk_tokens: count,
                    chunk_start_position: 0,
                    total_prompt_tokens: count,
                    is_final_chunk: true,
                },
                regime: RopeRegime::for_length(count, self.model.body.shape.rope_regime_limit),
                logits: 0..0,
                adapters: None,
            })
        });
        SequenceLayout::new(parts.collect::<Result<_, ModelError>>()?)
    }
}

/// The request of a text; `None` if it has failed already.
fn begun<T>(
    text: &EmbeddingInput,
    arrival: RequestArrival,
    checked: &Result<T, GenerateError>,
) -> Option<RequestProgress> {
    match checked {
        Ok(_) => {
            let prompt_tokens = text.tokens.len();
            Some(arrival.initialized(&RequestStart { prompt_tokens, cached_tokens: 0, adapters: None }))
        }
        Err(error) => {
            arrival.refused(error);
            None
        }
    }
}

/// The rows of one sequence, checked and normalized.
fn finished(own: &[f32], width: usize, normalization: Normalization) -> Result<Vec<f32>, GenerateError> {
    check_finite(own, width, 0, KvType::F32)?;
    let mut own = own.to_vec();
    if normalization == Normalization::Euclidean {
        own.chunks_exact_mut(width.max(1)).for_each(normalize);
    }
    Ok(own)
}

/// `x / |x|`, summed in f64; a row of zeros is unchanged.
fn normalize(row: &mut [f32]) {
    let length = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 {
        row.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
}
