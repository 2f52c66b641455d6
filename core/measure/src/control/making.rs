//! [`make_control_vector`]: directions from pairs of prompts, as in llama.cpp's `cvector-generator`.
//!
//! The shorter prompt of a pair is padded. Both prompts are computed, and the streams after each layer are subtracted,
//! row by row. Rows that are equal in both prompts (a common beginning) are left out. The remaining differences of all
//! pairs give one unit vector per layer. As in that program, the difference after layer N-1 becomes `direction.N`,
//! which is added after layer N.

use super::directions::{self, DirectionMethod};
use super::vector::ControlVector;
use menagerie_engine::{Evaluation, GenerateError, PipelineHooks, RequestKind, Scheduler, TextPipeline};
use menagerie_model::{Checkpoint, HookInput, LayerHook, ModelError};
use menagerie_open::{LoadedModel, available_memory, byte_text};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A difference counts as zero if none of its values is larger than this.
const SAME: f32 = 1e-6;

/// Two prompts that differ in the subject of the control vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPair {
    /// The prompt that the vector points to.
    pub positive: Vec<u32>,
    /// The prompt that the vector points away from.
    pub negative: Vec<u32>,
}

/// A hook that records the stream after every layer.
struct Streams {
    layers: Range<usize>,
    kept: Mutex<Vec<Vec<f32>>>,
}

impl Streams {
    fn take(&self) -> Vec<Vec<f32>> {
        let empty = vec![Vec::new(); self.layers.len()];
        std::mem::replace(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner), empty)
    }
}

impl LayerHook for Streams {
    fn name(&self) -> &str {
        "streams"
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<(), ModelError> {
        if checkpoint == Checkpoint::LayerOut {
            let values = shown.compute.backend.read(shown.rows)?;
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(kept) = kept.get_mut(shown.layer) {
                kept.extend_from_slice(&values);
            }
        }
        Ok(())
    }
}

/// Computes directions from the negative prompts of all pairs to the positive prompts. The shorter prompt of a pair is
/// padded with `padding`. `each` is called after every pair, and after the direction of every layer.
///
/// # Errors
/// No pairs, prompts that do not fit, too little memory for the differences, prompts without a difference in a layer,
/// cancellation, or an error of the model.
pub fn make_control_vector(
    pipeline: &LoadedModel<TextPipeline>,
    pairs: &[PromptPair],
    (padding, method): (u32, DirectionMethod),
    cancel: Option<&AtomicBool>,
    each: &mut dyn FnMut(),
) -> Result<ControlVector, GenerateError> {
    let shape = pipeline.engine().model.shape();
    let (layers, width) = (shape.n_layers.saturating_sub(1), shape.embedding_length);
    expect_room(pairs, layers, width, available_memory())?;
    let streams = Arc::new(Streams { layers: 0..layers, kept: Mutex::default() });
    streams.take();
    let mut hooks: PipelineHooks = pipeline.hooks().clone();
    hooks.layers.push(Arc::clone(&streams) as Arc<dyn LayerHook>);
    let scheduler = Scheduler::for_one(Arc::clone(pipeline.engine()), hooks)?;
    let mut evaluation = Evaluation::new(scheduler, RequestKind::Activations, cancel)?;
    let mut differences: Vec<Vec<f32>> = vec![Vec::new(); layers];
    for pair in pairs {
        let long = pair.positive.len().max(pair.negative.len());
        let mut of = |tokens: &[u32]| {
            let mut tokens = tokens.to_vec();
            tokens.resize(long, padding);
            evaluation.watch(&tokens).map(|()| streams.take())
        };
        let (positive, negative) = (of(&pair.positive)?, of(&pair.negative)?);
        for ((kept, positive), negative) in differences.iter_mut().zip(positive).zip(negative) {
            let rows = positive.chunks_exact(width).zip(negative.chunks_exact(width));
            for (one, other) in rows.filter(|(one, other)| differ(one, other)) {
                kept.extend(one.iter().zip(other).map(|(one, other)| one - other));
            }
        }
        each();
    }
    let mut vector =
        ControlVector { hint: Some(pipeline.architecture().to_owned()), ..ControlVector::default() };
    for (layer, rows) in differences.into_iter().enumerate() {
        if cancel.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(GenerateError::Cancelled);
        }
        let direction = match method {
            DirectionMethod::Pca => directions::principal(&rows, width),
            DirectionMethod::Mean => directions::mean(&rows, width),
        };
        let direction = direction.ok_or_else(|| {
            GenerateError::Options(format!(
                "after layer {layer} the positive prompts do not differ from the negative ones on the whole: there is no \
                 direction between them; give prompts that differ"
            ))
        })?;
        vector.directions.insert(layer + 1, direction);
        each();
    }
    Ok(vector)
}

/// Whether two rows differ.
fn differ(one: &[f32], other: &[f32]) -> bool {
    one.iter().zip(other).any(|(one, other)| (one - other).abs() > SAME)
}

/// Refuses pairs without a result, and more than fit into memory.
fn expect_room(
    pairs: &[PromptPair],
    layers: usize,
    width: usize,
    free: Option<u64>,
) -> Result<(), GenerateError> {
    if pairs.is_empty() {
        return Err(GenerateError::Options(
            "there are no pairs of prompts; at least one is needed".to_owned(),
        ));
    }
    if layers == 0 {
        return Err(GenerateError::Options(
            "the model has only one layer: directions are added from the second layer on".to_owned(),
        ));
    }
    let rows: usize = pairs.iter().map(|pair| pair.positive.len().max(pair.negative.len())).sum();
    let bytes = (rows as u64).saturating_mul(layers as u64).saturating_mul(width as u64).saturating_mul(4);
    match free {
        Some(free) if bytes > free => Err(GenerateError::Options(format!(
            "the differences of {rows} tokens in {layers} layers need {} but {} are free: use fewer or shorter prompts",
            byte_text(bytes),
            byte_text(free)
        ))),
        _ => Ok(()),
    }
}
