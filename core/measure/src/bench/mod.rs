//! [`bench()`]: prompt and generation speed, comparable with llama-bench's `pp` and `tg`.

mod together;

pub use together::{TogetherOptions, TogetherResult, bench_together};

use menagerie_engine::{
    Evaluation, GenerateError, Generator, LogitRows, RequestKind, Scheduler, TextPipeline, setters,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// What is measured.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BenchOptions {
    /// Tokens of the prompt; 0: the prompt is not measured.
    pub prompt: usize,
    /// Tokens that are generated from an empty sequence; 0: generation is not measured.
    pub generate: usize,
    /// Tokens in the cache before each measurement (llama-bench's depth).
    pub depth: usize,
    /// The number of measurements.
    pub repetitions: usize,
    /// Whether a run without measurement comes first.
    pub warm_up: bool,
    /// A flag that cancels.
    pub cancel: Option<Arc<AtomicBool>>,
}

setters! { BenchOptions:
    with_prompt(prompt: usize),
    with_generate(generate: usize),
    with_depth(depth: usize),
    with_repetitions(repetitions: usize),
    with_warm_up(warm_up: bool),
    with_cancel(cancel: impl Into<Option<Arc<AtomicBool>>>),
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self { prompt: 512, generate: 128, depth: 0, repetitions: 5, warm_up: true, cancel: None }
    }
}

/// Tokens per second over several measurements.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Rate {
    /// The median.
    pub median: f64,
    /// The lowest rate.
    pub min: f64,
    /// The highest rate.
    pub max: f64,
    /// Standard deviation (n - 1).
    pub deviation: f64,
    /// All rates, in order.
    pub samples: Vec<f64>,
}

impl Rate {
    /// The statistics of these samples; `None` if there are none.
    pub fn of(samples: Vec<f64>) -> Option<Self> {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        let deviation = if samples.len() > 1 { (squares / (samples.len() - 1) as f64).sqrt() } else { 0.0 };
        Some(Self { median, min, max, deviation, samples })
    }
}

/// The result of the measurements.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct BenchResult {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Generated tokens.
    pub generated_tokens: usize,
    /// Tokens in the cache before each measurement.
    pub depth: usize,
    /// Prompt tokens per second (`pp`).
    pub prompt: Option<Rate>,
    /// Generated tokens per second (`tg`).
    pub generate: Option<Rate>,
}

/// A measurement in progress, for a progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BenchProgress {
    /// A run without measurement.
    WarmUp,
    /// This measurement of the prompt, from 1.
    Prompt(usize),
    /// This measurement of the generation, from 1.
    Generate(usize),
}

/// Measures like llama-bench: random tokens, each measurement from the same depth, logits of only the last prompt
/// token, generation without sampling.
///
/// # Errors
/// A context that is too small, no repetitions, cancellation, or an error of the model.
pub fn bench(
    pipeline: &TextPipeline,
    options: &BenchOptions,
    on_progress: &mut dyn FnMut(BenchProgress),
) -> Result<BenchResult, GenerateError> {
    let engine = pipeline.engine();
    let needed = options.depth.saturating_add(options.prompt.max(options.generate));
    if needed > engine.context {
        return Err(engine.too_long(needed));
    }
    if options.repetitions == 0 {
        return Err(GenerateError::Options("at least one repetition is needed".to_owned()));
    }
    let mut run = BenchRun::new(pipeline, options)?;
    if options.warm_up {
        on_progress(BenchProgress::WarmUp);
        run.prompt(options.prompt.max(1))?;
        run.generate(options.generate.clamp(1, 4))?;
    }
    let (mut prompt, mut generate) = (Vec::new(), Vec::new());
    if options.prompt > 0 {
        for repetition in 1..=options.repetitions {
            on_progress(BenchProgress::Prompt(repetition));
            prompt.push(run.prompt(options.prompt)?);
        }
    }
    if options.generate > 0 {
        for repetition in 1..=options.repetitions {
            on_progress(BenchProgress::Generate(repetition));
            generate.push(run.generate(options.generate)?);
        }
    }
    Ok(BenchResult {
        prompt_tokens: options.prompt,
        generated_tokens: options.generate,
        depth: options.depth,
        prompt: Rate::of(prompt),
        generate: Rate::of(generate),
    })
}

/// A sequence with random tokens.
struct BenchRun<'a> {
    evaluation: Evaluation<'a>,
    random: Generator,
    vocabulary: u32,
    depth: Vec<u32>,
}

impl<'a> BenchRun<'a> {
    fn new(pipeline: &TextPipeline, options: &'a BenchOptions) -> Result<Self, GenerateError> {
        let engine = pipeline.engine();
        let scheduler = Scheduler::for_one(Arc::clone(engine), pipeline.hooks().clone())?;
        let evaluation = Evaluation::new(scheduler, RequestKind::Bench, options.cancel.as_deref())?;
        let vocabulary = engine.model.vocabulary() as u32;
        let mut run = Self { evaluation, random: Generator::new(1), vocabulary, depth: Vec::new() };
        run.depth = run.tokens(options.depth);
        Ok(run)
    }

    fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.random.below(self.vocabulary)).collect()
    }

    fn feed(&mut self) -> Result<(), GenerateError> {
        self.evaluation.feed(&mut |output| output.last_logits().map(drop))
    }

    /// Prompt tokens per second. The time to reach the depth is not measured.
    fn prompt(&mut self, count: usize) -> Result<f64, GenerateError> {
        let mut tokens = self.depth.clone();
        tokens.extend(self.tokens(count));
        self.evaluation.hold(&self.depth)?;
        let started = Instant::now();
        self.evaluation.begin(&tokens, LogitRows::Last)?;
        self.feed()?;
        let taken = started.elapsed();
        self.evaluation.end();
        Ok(count as f64 / taken.as_secs_f64())
    }

    /// Generated tokens per second. The time to reach the depth is not measured.
    fn generate(&mut self, count: usize) -> Result<f64, GenerateError> {
        let tokens = self.tokens(count);
        self.evaluation.hold(&self.depth)?;
        self.evaluation.go_on();
        let started = Instant::now();
        for token in tokens {
            self.evaluation.push(token)?;
            self.feed()?;
            self.evaluation.token();
        }
        let taken = started.elapsed();
        self.evaluation.end();
        Ok(count as f64 / taken.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_median_and_spread() {
        let rate = Rate::of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((rate.median, rate.min, rate.max), (2.5, 1.0, 4.0));
        assert!((rate.deviation - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Rate::of(vec![7.0]).unwrap().deviation, 0.0);
        assert_eq!(Rate::of(Vec::new()), None);
    }
}
