//! [`bench_together()`]: speed of several sequences that share steps, comparable with llama-batched-bench.

use crate::bench::Rate;
use menagerie_engine::{
    GenerateError, Generator, LogitRows, RequestArrival, RequestKind, RequestProgress, RequestStart,
    Scheduler, SchedulerOptions, Sequence, TextPipeline, setters,
};
use std::sync::Arc;
use std::time::Instant;

/// What is measured with several sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TogetherOptions {
    /// The number of sequences.
    pub sequences: usize,
    /// Tokens of each prompt, 1 or more; no two prompts have the same beginning.
    pub prompt: usize,
    /// Tokens that each sequence generates.
    pub generate: usize,
    /// The number of measurements.
    pub repetitions: usize,
}

impl Default for TogetherOptions {
    /// Four sequences of 512 tokens that generate 128 each, measured five times.
    fn default() -> Self {
        Self { sequences: 4, prompt: 512, generate: 128, repetitions: 5 }
    }
}

setters! { TogetherOptions:
    with_sequences(sequences: usize),
    with_prompt(prompt: usize),
    with_generate(generate: usize),
    with_repetitions(repetitions: usize),
}

/// Tokens per second of all sequences together.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct TogetherResult {
    /// The number of sequences.
    pub sequences: usize,
    /// Prompt tokens (`S_PP` of llama-batched-bench).
    pub prompt: Option<Rate>,
    /// Generated tokens (`S_TG`).
    pub generate: Option<Rate>,
    /// Both (`S`).
    pub total: Option<Rate>,
}

/// Measures like llama-batched-bench: random tokens, all prompts, then a token of each sequence in every step, without
/// sampling. A run without measurement comes first.
///
/// # Errors
/// A context that is too small for a sequence, nothing to measure, or an error of the model.
pub fn bench_together(
    pipeline: &TextPipeline,
    options: &TogetherOptions,
) -> Result<TogetherResult, GenerateError> {
    let engine = pipeline.engine();
    let TogetherOptions { sequences, prompt, generate, repetitions } = *options;
    let needed = prompt.saturating_add(generate);
    if needed > engine.context {
        return Err(engine.too_long(needed));
    }
    if sequences == 0 || prompt == 0 || repetitions == 0 {
        let reason = "sequences, tokens of a prompt and repetitions are 1 or more";
        return Err(GenerateError::Options(reason.to_owned()));
    }
    let (capacity_tokens, step_tokens) = (needed.saturating_mul(sequences), engine.chunk.max(sequences));
    let room = SchedulerOptions::default()
        .with_sequences(sequences)
        .with_prefixes(0)
        .with_capacity_tokens(capacity_tokens)
        .with_step_tokens(step_tokens);
    let mut run =
        QueueBench::new(Scheduler::new(Arc::clone(engine), pipeline.hooks().clone(), room)?, sequences)?;
    run.measure(prompt.min(16), generate.min(2))?;
    let (mut prompts, mut generated, mut total) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repetitions {
        let [reading, saying] = run.measure(prompt, generate)?;
        prompts.push((sequences * prompt) as f64 / reading);
        if generate > 0 {
            generated.push((sequences * generate) as f64 / saying);
        }
        total.push((sequences * needed) as f64 / (reading + saying));
    }
    let (prompt, generate) = (Rate::of(prompts), Rate::of(generated));
    Ok(TogetherResult { sequences, prompt, generate, total: Rate::of(total) })
}

/// The sequences of a scheduler; each is a request.
struct QueueBench {
    scheduler: Scheduler,
    sequences: Vec<Sequence>,
    requests: Vec<RequestProgress>,
    random: Generator,
    vocabulary: u32,
}

impl QueueBench {
    fn new(mut scheduler: Scheduler, count: usize) -> Result<Self, GenerateError> {
        let sequences = (0..count).map(|_| scheduler.create()).collect::<Result<_, _>>()?;
        let vocabulary = scheduler.engine().model.vocabulary() as u32;
        Ok(Self { scheduler, sequences, requests: Vec::new(), random: Generator::new(1), vocabulary })
    }

    /// Seconds for the prompts and for the generation.
    fn measure(&mut self, prompt: usize, generate: usize) -> Result<[f64; 2], GenerateError> {
        let measured = self.measured(prompt, generate);
        for request in self.requests.drain(..) {
            match &measured {
                Ok(_) => request.computed(prompt + generate),
                Err(error) => request.failed(error),
            }
        }
        measured
    }

    fn measured(&mut self, prompt: usize, generate: usize) -> Result<[f64; 2], GenerateError> {
        for index in 0..self.sequences.len() {
            let tokens: Vec<u32> = (0..prompt).map(|_| self.random.below(self.vocabulary)).collect();
            let arrival = RequestArrival::new(&self.scheduler.hooks().lifecycles, RequestKind::Bench);
            let sequence = &mut self.sequences[index];
            self.scheduler.reset(sequence)?;
            if let Err(error) = self.scheduler.begin(sequence, &tokens, LogitRows::Last) {
                arrival.refused(&error);
                return Err(error);
            }
            let (cached_tokens, adapters) = (sequence.cached(), sequence.adapters());
            let start = RequestStart::new(prompt, cached_tokens, adapters);
            self.requests.push(arrival.initialized(&start));
        }
        let started = Instant::now();
        self.steps()?;
        let reading = started.elapsed().as_secs_f64();
        let started = Instant::now();
        for _ in 0..generate {
            for sequence in &mut self.sequences {
                self.scheduler.push(sequence, self.random.below(self.vocabulary))?;
            }
            self.steps()?;
            self.requests.iter_mut().for_each(RequestProgress::token);
        }
        Ok([reading, started.elapsed().as_secs_f64()])
    }

    /// Runs steps until all tokens are computed.
    fn steps(&mut self) -> Result<(), GenerateError> {
        while self.sequences.iter().any(|sequence| sequence.pending() > 0) {
            let mut all: Vec<&mut Sequence> = self.sequences.iter_mut().collect();
            let mut stepped = Ok(());
            self.scheduler.step(&mut all, None).each(&mut |_, output| {
                let taken = output.and_then(|output| output.last_logits().map(drop));
                stepped = std::mem::replace(&mut stepped, Ok(())).and(taken);
            });
            stepped?;
        }
        Ok(())
    }
}
