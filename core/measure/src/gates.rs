//! [`GateTrainer`]: trains the gates of a mixture on prompts that name their expert.
//!
//! The training is that of AnyMoE (Buehler, 2024; mistral.rs): cross entropy between the number of the expert and the
//! mean of the gate's softmax over the rows of a prompt (the loss contains a second softmax); Adam (Kingma and Ba, 2015)
//! with rate 1e-3, betas 0.9 and 0.999, epsilon 1e-8 and no decay; each layer separately. Two things differ. The inputs
//! of the gates are computed once, with the expert that the prompt names in every layer; mistral.rs computes them in
//! every epoch with the experts that the gates choose so far. Both are equal once the gates choose correctly. And gates
//! begin at zero, so the result depends only on the seed, which determines the order of the prompts.

use menagerie_engine::{
    Evaluation, GenerateError, PipelineHooks, RequestKind, Scheduler, TextPipeline, setters,
};
use menagerie_model::{HookInput, LayerHook};
use menagerie_open::{GateFile, LayerGate, LoadedModel};
use menagerie_random::SplitMix64;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A prompt and its expert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateExample {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// Its expert, counted from 0; 0 is the feed-forward of the base.
    pub expert: usize,
}

/// The inputs of a mixture's gates for an example.
#[derive(Clone, Debug)]
pub struct GateRows {
    /// The expert of the example.
    pub expert: usize,
    /// By layer: rows `[T, D]`.
    pub layers: BTreeMap<usize, Vec<f32>>,
}

/// How gates are trained.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GateTrainingOptions {
    /// The number of passes over all examples.
    pub epochs: usize,
    /// Examples of a step.
    pub batch: usize,
    /// Adam's rate.
    pub learning_rate: f64,
    /// Seed of the order of the examples.
    pub seed: u64,
}

setters! { GateTrainingOptions:
    with_epochs(epochs: usize),
    with_batch(batch: usize),
    with_learning_rate(learning_rate: f64),
    with_seed(seed: u64),
}

impl Default for GateTrainingOptions {
    fn default() -> Self {
        Self { epochs: 100, batch: 4, learning_rate: 1e-3, seed: 0 }
    }
}

/// How well a gate chooses.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct GateScore {
    /// The layer.
    pub layer: usize,
    /// The mean loss of the examples.
    pub loss: f64,
    /// The share of the examples for which it chooses the expert that they name (0 to 1).
    pub accuracy: f64,
}

/// A hook that records the inputs and the choices of gates.
#[derive(Default)]
struct GateLog {
    layers: Range<usize>,
    seen: Mutex<BTreeMap<usize, Vec<f32>>>,
    chosen: Mutex<BTreeMap<usize, Vec<u32>>>,
}

impl LayerHook for GateLog {
    fn name(&self) -> &str {
        "gates"
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn chosen(&self, experts: &[u32], shown: &HookInput) -> menagerie_model::Result<()> {
        let (layer, values) = (shown.layer, shown.compute.backend.read(shown.rows)?);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.entry(layer).or_default().extend_from_slice(&values);
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        chosen.entry(layer).or_default().extend_from_slice(experts);
        Ok(())
    }
}

/// The inputs of a mixture's gates for each prompt. The model must be opened with
/// [`menagerie_open::GateOption::Always`] and the expert that all prompts name. `each` is called after every prompt.
///
/// # Errors
/// A prompt that does not fit; a model without a mixture; an error of the forward.
pub fn gate_rows(
    model: &LoadedModel<TextPipeline>,
    examples: &[&GateExample],
    cancel: Option<&AtomicBool>,
    each: &mut dyn FnMut(),
) -> Result<Vec<GateRows>, GenerateError> {
    let mut rows = Vec::with_capacity(examples.len());
    watched(model, examples, cancel, &mut |example, log| {
        let layers = std::mem::take(&mut *log.seen.lock().unwrap_or_else(PoisonError::into_inner));
        rows.push(GateRows { expert: example.expert, layers });
        each();
    })?;
    Ok(rows)
}

/// By layer, the share of a prompt's rows that are routed to the expert that the prompt names, over all prompts. The
/// mixture runs as a whole, so later layers read the results of the experts that earlier layers chose.
///
/// # Errors
/// As [`gate_rows`].
pub fn gate_shares(
    model: &LoadedModel<TextPipeline>,
    examples: &[&GateExample],
    cancel: Option<&AtomicBool>,
) -> Result<BTreeMap<usize, f64>, GenerateError> {
    let mut shares: BTreeMap<usize, f64> = BTreeMap::new();
    watched(model, examples, cancel, &mut |example, log| {
        let chosen = std::mem::take(&mut *log.chosen.lock().unwrap_or_else(PoisonError::into_inner));
        log.seen.lock().unwrap_or_else(PoisonError::into_inner).clear();
        for (layer, experts) in chosen {
            let right = experts.iter().filter(|expert| **expert as usize == example.expert).count();
            let share = right as f64 / experts.len().max(1) as f64;
            *shares.entry(layer).or_default() += share / examples.len() as f64;
        }
    })?;
    Ok(shares)
}

/// Runs each prompt in its own sequence and calls `each` with the inputs and choices of the gates.
fn watched(
    model: &LoadedModel<TextPipeline>,
    examples: &[&GateExample],
    cancel: Option<&AtomicBool>,
    each: &mut dyn FnMut(&GateExample, &GateLog),
) -> Result<(), GenerateError> {
    let layers = 0..model.engine().model.shape().n_layers;
    let log = Arc::new(GateLog { layers, ..GateLog::default() });
    let hooks = PipelineHooks::of_layers([Arc::clone(&log) as _]);
    let hooks = PipelineHooks { lifecycles: model.hooks().lifecycles.clone(), ..hooks };
    let scheduler = Scheduler::for_one(Arc::clone(model.engine()), hooks)?;
    let mut evaluation = Evaluation::new(scheduler, RequestKind::Activations, cancel)?;
    for example in examples {
        evaluation.watch(&example.tokens)?;
        if log.chosen.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            let reason = "the model has no mixture; gates are trained for a recipe with [mixture]".to_owned();
            return Err(GenerateError::Options(reason));
        }
        each(example, &log);
    }
    Ok(())
}

/// Trains the gates of some layers, an epoch at a time.
pub struct GateTrainer<'a> {
    examples: &'a [GateRows],
    options: GateTrainingOptions,
    layers: Vec<LayerTrainer>,
    random: SplitMix64,
}

impl<'a> GateTrainer<'a> {
    /// Gates over rows of `width` elements that choose among `experts`.
    ///
    /// # Errors
    /// [`GenerateError::Options`]: no examples, an expert past the last one, examples of only one expert, rows of another
    /// width, options that train nothing.
    pub fn new(
        examples: &'a [GateRows],
        [experts, width]: [usize; 2],
        options: GateTrainingOptions,
    ) -> Result<Self, GenerateError> {
        let fault = |reason: String| Err(GenerateError::Options(reason));
        let Some(first) = examples.first() else {
            return fault("there are no examples to train gates with".to_owned());
        };
        if let Some(past) = examples.iter().find(|example| example.expert >= experts) {
            return fault(format!(
                "an example names expert {}; the mixture has experts 0 to {}",
                past.expert,
                experts.saturating_sub(1)
            ));
        }
        if examples.iter().all(|example| example.expert == first.expert) {
            return fault(format!(
                "all examples name expert {}: a gate learns from examples of two experts at least",
                first.expert
            ));
        }
        let rate = options.learning_rate;
        if options.epochs == 0 || options.batch == 0 || !rate.is_finite() || rate <= 0.0 {
            return fault("epochs, batch and learning rate must be above 0".to_owned());
        }
        let uneven = |example: &GateRows| {
            let good = |rows: &Vec<f32>| !rows.is_empty() && rows.len().is_multiple_of(width.max(1));
            !example.layers.keys().eq(first.layers.keys()) || !example.layers.values().all(good)
        };
        if examples.iter().any(uneven) {
            return fault(format!(
                "examples whose rows are not of the same layers, or not of {width} numbers"
            ));
        }
        let layers = first.layers.keys().map(|layer| LayerTrainer::new(*layer, experts, width)).collect();
        let random = SplitMix64::new(options.seed);
        Ok(Self { examples, options, layers, random })
    }

    /// One pass over the examples, on `threads` threads at most; ends early if `cancel` is set.
    pub fn epoch(&mut self, threads: usize, cancel: Option<&AtomicBool>) {
        let order = self.shuffled();
        let (examples, options) = (self.examples, &self.options);
        let share = self.layers.len().div_ceil(threads.max(1)).max(1);
        let stopped = || cancel.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let work = |layers: &mut [LayerTrainer]| {
            for layer in layers {
                for batch in order.chunks(options.batch) {
                    if stopped() {
                        return;
                    }
                    layer.step(batch.iter().filter_map(|index| examples.get(*index)), options.learning_rate);
                }
            }
        };
        std::thread::scope(|scope| {
            for layers in self.layers.chunks_mut(share) {
                scope.spawn(|| work(layers));
            }
        });
    }

    /// Loss and accuracy of each gate over examples, which may be others than those of the training.
    pub fn scores(&self, examples: &[GateRows]) -> Vec<GateScore> {
        self.layers.iter().map(|layer| layer.score(examples)).collect()
    }

    /// The gates in their current state.
    pub fn gates(&self) -> GateFile {
        let gate = |layer: &LayerTrainer| (layer.layer, layer.gate());
        GateFile { layers: self.layers.iter().map(gate).collect() }
    }

    /// The examples in the order of the next epoch (Fisher and Yates, 1938).
    fn shuffled(&mut self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.examples.len()).collect();
        for last in (1..order.len()).rev() {
            let at = self.random.below(last + 1);
            order.swap(last, at);
        }
        order
    }
}

/// The gate of a layer in training: `[experts, D + 1]` in f64, of which the last column is the bias.
struct LayerTrainer {
    layer: usize,
    experts: usize,
    width: usize,
    weights: Vec<f64>,
    gradient: Vec<f64>,
    /// Adam's moments and steps.
    moments: [Vec<f64>; 2],
    steps: i32,
}

impl LayerTrainer {
    fn new(layer: usize, experts: usize, width: usize) -> Self {
        let zeros = || vec![0.0; experts * (width + 1)];
        Self {
            layer,
            experts,
            width,
            weights: zeros(),
            gradient: zeros(),
            moments: [zeros(), zeros()],
            steps: 0,
        }
    }

    /// Softmax of every row, `[T, experts]`, and the mean over the rows, `[experts]`.
    fn chances(&self, rows: &[f32]) -> (Vec<f64>, Vec<f64>) {
        let count = (rows.len() / self.width) as f64;
        let (mut all, mut mean) = (Vec::new(), vec![0.0; self.experts]);
        for row in rows.chunks_exact(self.width) {
            let product = |weights: &[f64]| {
                let bias = weights[self.width];
                row.iter().zip(weights).fold(bias, |sum, (value, weight)| sum + f64::from(*value) * weight)
            };
            let logits: Vec<f64> = self.weights.chunks_exact(self.width + 1).map(product).collect();
            let chances = softmax(&logits);
            mean.iter_mut().zip(&chances).for_each(|(mean, chance)| *mean += chance / count);
            all.extend(chances);
        }
        (all, mean)
    }

    /// Adds an example's share of the gradient.
    fn add(&mut self, example: &GateRows, share: f64) {
        let Some(rows) = example.layers.get(&self.layer) else { return };
        let (all, mean) = self.chances(rows);
        // The loss is the cross entropy of the softmax of the mean.
        let mut outer = softmax(&mean);
        outer[example.expert] -= 1.0;
        let count = (rows.len() / self.width) as f64;
        for (row, chances) in rows.chunks_exact(self.width).zip(all.chunks_exact(self.experts)) {
            let level: f64 = chances.iter().zip(&outer).map(|(chance, outer)| chance * outer).sum();
            let gradients = self.gradient.chunks_exact_mut(self.width + 1);
            for ((gradient, chance), outer) in gradients.zip(chances).zip(&outer) {
                let inner = chance * (outer - level) * share / count;
                gradient.iter_mut().zip(row).for_each(|(sum, value)| *sum += inner * f64::from(*value));
                gradient[self.width] += inner;
            }
        }
    }

    /// One step of Adam over a batch.
    fn step<'e>(&mut self, batch: impl Iterator<Item = &'e GateRows> + Clone, rate: f64) {
        const BETAS: [f64; 2] = [0.9, 0.999];
        const EPSILON: f64 = 1e-8;
        let share = 1.0 / batch.clone().count().max(1) as f64;
        self.gradient.fill(0.0);
        batch.for_each(|example| self.add(example, share));
        self.steps += 1;
        let [first, second] = BETAS.map(|beta| 1.0 - libm::pow(beta, f64::from(self.steps)));
        let [means, squares] = &mut self.moments;
        let moments = means.iter_mut().zip(squares);
        for ((weight, gradient), (mean, square)) in self.weights.iter_mut().zip(&self.gradient).zip(moments) {
            *mean = BETAS[0] * *mean + (1.0 - BETAS[0]) * gradient;
            *square = BETAS[1] * *square + (1.0 - BETAS[1]) * gradient * gradient;
            *weight -= rate * (*mean / first) / ((*square / second).sqrt() + EPSILON);
        }
    }

    fn score(&self, examples: &[GateRows]) -> GateScore {
        let (mut loss, mut right) = (0.0, 0usize);
        for example in examples {
            let Some(rows) = example.layers.get(&self.layer) else { continue };
            let (_, mean) = self.chances(rows);
            loss -= libm::log(softmax(&mean)[example.expert]);
            let best = (1..mean.len()).fold(0, |best, at| if mean[at] > mean[best] { at } else { best });
            right += usize::from(best == example.expert);
        }
        let count = examples.len().max(1) as f64;
        GateScore { layer: self.layer, loss: loss / count, accuracy: right as f64 / count }
    }

    fn gate(&self) -> LayerGate {
        let rows = || self.weights.chunks_exact(self.width + 1);
        LayerGate {
            weight: rows().flat_map(|row| row[..self.width].iter().map(|weight| *weight as f32)).collect(),
            bias: rows().map(|row| row[self.width] as f32).collect(),
        }
    }
}

fn softmax(values: &[f64]) -> Vec<f64> {
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut out: Vec<f64> = values.iter().map(|value| libm::exp(value - highest)).collect();
    let sum: f64 = out.iter().sum();
    out.iter_mut().for_each(|value| *value /= sum);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(expert: usize, rows: &[f32]) -> GateRows {
        GateRows { expert, layers: BTreeMap::from([(3, rows.to_vec())]) }
    }

    /// The gradient is compared with differences of the loss.
    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let examples = [example(1, &[0.5, -1.0, 2.0, 0.3]), example(2, &[1.5, 0.2])];
        let mut layer = LayerTrainer::new(3, 3, 2);
        layer.weights = (0..9).map(|at| f64::from(at * 7 % 5) * 0.3 - 0.5).collect();
        for one in &examples {
            layer.add(one, 0.5);
        }
        for at in 0..layer.weights.len() {
            let mut moved = |by: f64| {
                layer.weights[at] += by;
                let loss = layer.score(&examples).loss;
                layer.weights[at] -= by;
                loss
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((slope - layer.gradient[at]).abs() < 1e-8, "{at}: {slope} {}", layer.gradient[at]);
        }
    }

    #[test]
    fn what_cannot_train_a_gate_is_refused() {
        let refused = |examples: &[GateRows], options: GateTrainingOptions| {
            GateTrainer::new(examples, [3, 2], options).err().unwrap().to_string()
        };
        let good = [example(0, &[1.0, 0.0]), example(1, &[0.0, 1.0])];
        let usual = GateTrainingOptions::default;
        assert!(refused(&[], usual()).contains("no examples"));
        assert!(refused(&[good[0].clone(), example(3, &[1.0, 1.0])], usual()).contains("experts 0 to 2"));
        assert!(refused(&[good[0].clone()], usual()).contains("all examples name expert 0"));
        assert!(refused(&[good[0].clone(), example(1, &[1.0])], usual()).contains("not of 2 numbers"));
        assert!(refused(&good, GateTrainingOptions { batch: 0, ..usual() }).contains("above 0"));
        assert!(
            refused(&good, GateTrainingOptions { learning_rate: f64::NAN, ..usual() }).contains("above 0")
        );
    }

    #[test]
    fn a_seed_gives_one_result_and_another_seed_another() {
        let examples: Vec<GateRows> =
            (0..7).map(|at| example(at % 3, &[at as f32, 1.0 - at as f32 * 0.3])).collect();
        let trained = |seed: u64, threads: usize| {
            let options = GateTrainingOptions { epochs: 5, batch: 2, learning_rate: 0.1, seed };
            let mut trainer = GateTrainer::new(&examples, [3, 2], options).unwrap();
            (0..5).for_each(|_| trainer.epoch(threads, None));
            trainer.gates()
        };
        assert_eq!(trained(1, 1), trained(1, 4));
        assert_ne!(trained(1, 1), trained(2, 1));
    }
}
