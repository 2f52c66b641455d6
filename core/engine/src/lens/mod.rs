//! [`LogitLens`]: what each layer of a model would predict if it were the last one.

mod table;

pub use table::{LensCell, LensTable, LensTableRow, NamedToken};

use crate::engine::Engine;
use crate::error::GenerateError;
use crate::sampling::{TokenProbability, likeliest, log_probabilities};
use crate::setters::setters;
use menagerie_model::{Backend, Checkpoint, HookInput, LayerHook, ModelError, Rows, SequenceId, StepHead};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most rows whose logits are in memory at once.
const GROUP: usize = 16;

/// The most tokens that a lens keeps of a row.
const MOST_TOP: usize = 100;

/// What a [`LogitLens`] reads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LensOptions {
    /// The layers, 0-based; `None` = all.
    pub layers: Option<BTreeSet<usize>>,
    /// The positions of tokens, 0-based; `None` = all. Positions past the text are left out.
    pub positions: Option<BTreeSet<usize>>,
    /// The most likely tokens that it keeps of each layer and position, at most 100.
    pub top: usize,
}

setters! { LensOptions:
    with_layers(layers: impl Into<Option<BTreeSet<usize>>>),
    with_positions(positions: impl Into<Option<BTreeSet<usize>>>),
    with_top(top: usize),
}

impl Default for LensOptions {
    /// All layers and positions, with the most likely token of each.
    fn default() -> Self {
        Self { layers: None, positions: None, top: 1 }
    }
}

/// A token in the prediction of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LensToken {
    /// Its id.
    pub id: u32,
    /// Its logit, as the head computes it.
    pub logit: f32,
    /// Natural logarithm of its softmax probability over the whole vocabulary.
    pub logprob: f32,
}

/// What a layer would predict after a token.
#[derive(Clone, Debug, PartialEq)]
pub struct LensReading {
    /// The layer, 0-based.
    pub layer: usize,
    /// The rank of the token that the last layer finds most likely; 1 = this layer does, too.
    pub rank: usize,
    /// Natural logarithm of the probability of that token.
    pub logprob: f32,
    /// The most likely tokens, best first (ties: lower id first).
    pub top: Vec<LensToken>,
}

/// What the layers would predict after a token.
#[derive(Clone, Debug, PartialEq)]
pub struct LensRow {
    /// The position of the token, 0-based.
    pub position: usize,
    /// The token that the last layer finds most likely after it.
    pub likeliest: u32,
    /// The layers, ascending. A layer whose logits are not finite is left out.
    pub readings: Vec<LensReading>,
}

/// A logit lens (nostalgebraist, 2020): a hook that passes the rows after each layer through the final norm and the head
/// of the model, with all that the head does (scale, cap, bias, suppressed tokens). The row of the last layer has the
/// logits of the model, bit for bit. Only the most likely tokens are kept.
///
/// It reads one sequence: that of its request ([`crate::Request::lens`]), or that of a pipeline that runs one at a time. If
/// a token is computed twice, its last row counts.
#[derive(Debug)]
pub struct LogitLens {
    options: LensOptions,
    /// All layers of the model.
    layers: usize,
    vocabulary: usize,
    state: Mutex<LensState>,
}

#[derive(Debug, Default)]
struct LensState {
    /// Rows of the step that is computed now, layer by layer.
    pending: Vec<LayerRows>,
    rows: BTreeMap<usize, LensRow>,
}

/// Rows after a layer that will be read.
#[derive(Debug)]
struct LayerRows {
    layer: usize,
    sequence: SequenceId,
    /// The position of each row.
    positions: Vec<usize>,
    rows: Rows,
}

impl LogitLens {
    /// A lens for the model of an engine.
    ///
    /// # Errors
    /// The model has no lens (its layers update two streams, or it is in stages) or lacks a layer; no position, or a
    /// number of tokens that is 0 or too large.
    pub fn new(engine: &Engine, options: LensOptions) -> Result<Self, GenerateError> {
        let refused = |reason: String| Err(GenerateError::Options(reason));
        if let Err(error) = engine.model.check_lens() {
            return refused(format!("no logit lens: {error}"));
        }
        let layers = engine.model.shape().n_layers;
        let chosen = |set: &Option<BTreeSet<usize>>| set.as_ref().is_some_and(BTreeSet::is_empty);
        if chosen(&options.layers) || chosen(&options.positions) {
            return refused(
                "a logit lens needs a layer and a position: name some, or leave the choice out".into(),
            );
        }
        let last = options.layers.as_ref().and_then(BTreeSet::last).copied();
        if let Some(layer) = last.filter(|layer| *layer >= layers) {
            let most = layers.saturating_sub(1);
            return refused(format!("layer {layer} is past the last one of this model, {most}"));
        }
        if options.top == 0 || options.top > MOST_TOP {
            return refused(format!(
                "a logit lens keeps 1 to {MOST_TOP} tokens of a row, not {}",
                options.top
            ));
        }
        let vocabulary = engine.vocabulary();
        Ok(Self { options, layers, vocabulary, state: Mutex::default() })
    }

    /// What it has read so far, position by position.
    pub fn rows(&self) -> Vec<LensRow> {
        self.state().rows.values().cloned().collect()
    }

    /// The first position that it reads.
    pub(crate) fn first_position(&self) -> usize {
        self.options.positions.as_ref().and_then(BTreeSet::first).copied().unwrap_or(0)
    }

    /// Refuses another model than that of the lens.
    pub(crate) fn check_engine(&self, engine: &Engine) -> Result<(), GenerateError> {
        let [own, other] =
            [[self.layers, self.vocabulary], [engine.model.shape().n_layers, engine.vocabulary()]];
        if own == other {
            return Ok(());
        }
        Err(GenerateError::Options(format!(
            "the logit lens was made for a model with {} layers and {} tokens, and this one has {} and {}: make one for it",
            own[0], own[1], other[0], other[1]
        )))
    }

    fn state(&self) -> MutexGuard<'_, LensState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it lists this layer.
    fn lists(&self, layer: usize) -> bool {
        self.options.layers.as_ref().is_none_or(|layers| layers.contains(&layer))
    }

    /// Reads some rows of every layer, the last layer first, because its likeliest tokens are ranked in the others.
    fn read_group(
        &self,
        pending: &[LayerRows],
        group: Range<usize>,
        head: &dyn StepHead,
    ) -> Result<(), ModelError> {
        let Some(last) = pending.last().filter(|last| last.layer + 1 == self.layers) else { return Ok(()) };
        let Some(part) = head.layout().sequences().iter().find(|part| part.sequence == last.sequence) else {
            return Ok(());
        };
        let positions = &last.positions[group.clone()];
        let origin: Vec<u32> =
            positions.iter().map(|at| (part.rows.start + at - part.first_position) as u32).collect();
        let places: Vec<u32> = group.map(|row| row as u32).collect();
        let backend = &*head.compute().backend;
        let mut rows: Vec<Option<LensRow>> = Vec::new();
        for read in pending.iter().rev() {
            let logits = head.logits(backend.select(&read.rows, &places)?, &origin)?;
            let values = backend.read(&logits)?;
            let values: Vec<&[f32]> = values.chunks_exact(logits.cols().max(1)).collect();
            if read.layer + 1 == self.layers {
                let row = |(position, row): (&usize, &&[f32])| {
                    let (likeliest, _) = likeliest(row)?;
                    Some(LensRow { position: *position, likeliest, readings: Vec::new() })
                };
                rows = positions.iter().zip(&values).map(row).collect();
            }
            if self.lists(read.layer) {
                let wanted: Vec<Option<u32>> =
                    rows.iter().map(|row| row.as_ref().map(|row| row.likeliest)).collect();
                let made = self.readings(read.layer, &values, &wanted, backend)?;
                for (row, reading) in rows.iter_mut().zip(made) {
                    if let Some(row) = row {
                        row.readings.extend(reading);
                    }
                }
            }
        }
        let mut state = self.state();
        for mut row in rows.into_iter().flatten() {
            row.readings.reverse();
            state.rows.insert(row.position, row);
        }
        Ok(())
    }

    /// What a layer with these rows of logits would predict, and how it ranks the `wanted` tokens; on all threads of the
    /// device's host, because each row has the whole vocabulary.
    fn readings(
        &self,
        layer: usize,
        rows: &[&[f32]],
        wanted: &[Option<u32>],
        backend: &dyn Backend,
    ) -> Result<Vec<Option<LensReading>>, ModelError> {
        let made: Vec<Mutex<Option<LensReading>>> = wanted.iter().map(|_| Mutex::default()).collect();
        backend.parallel(made.len(), &|index| {
            if let (Some(row), Some(slot), Some(Some(token))) =
                (rows.get(index), made.get(index), wanted.get(index))
            {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) =
                    reading(layer, row, *token, self.options.top);
            }
        })?;
        Ok(made.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
    }
}

/// What a layer with this row of logits would predict, and how it ranks a token; `None` if a logit is not finite.
fn reading(layer: usize, logits: &[f32], token: u32, top: usize) -> Option<LensReading> {
    let (logprob, best) = log_probabilities(logits, token, top);
    let own = *logits.get(token as usize)?;
    let before = (0u32..).zip(logits).filter(|(id, logit)| **logit > own || (**logit == own && *id < token));
    let named = |one: &TokenProbability| {
        Some(LensToken { id: one.id, logit: *logits.get(one.id as usize)?, logprob: one.logprob })
    };
    let top = best.iter().filter_map(named).collect();
    (!logprob.is_nan()).then(|| LensReading { layer, rank: before.count() + 1, logprob, top })
}

impl LayerHook for LogitLens {
    fn name(&self) -> &str {
        "logit lens"
    }

    fn layers(&self) -> Range<usize> {
        0..self.layers
    }

    fn at(&self, checkpoint: Checkpoint, shown: &HookInput) -> Result<(), ModelError> {
        let is_read = self.lists(shown.layer) || shown.layer + 1 == self.layers;
        if checkpoint != Checkpoint::LayerOut || !is_read {
            return Ok(());
        }
        let [part] = shown.layout.sequences() else {
            let reason = "reads one sequence at a time, and the step has several".to_owned();
            return Err(ModelError::Hook { hook: self.name().to_owned(), reason });
        };
        let wanted = |at: &usize| self.options.positions.as_ref().is_none_or(|chosen| chosen.contains(at));
        let positions: Vec<usize> =
            (part.first_position..part.first_position + part.rows.len()).filter(wanted).collect();
        let places: Vec<u32> = positions.iter().map(|at| (at - part.first_position) as u32).collect();
        let mut state = self.state();
        // What an earlier step left, which failed before its head.
        if state.pending.last().is_some_and(|before| before.layer >= shown.layer) {
            state.pending.clear();
        }
        if !positions.is_empty() {
            let rows = shown.compute.backend.select(shown.rows, &places)?;
            state.pending.push(LayerRows { layer: shown.layer, sequence: part.sequence, positions, rows });
        }
        Ok(())
    }

    fn at_head(&self, head: &dyn StepHead) -> Result<(), ModelError> {
        let pending = std::mem::take(&mut self.state().pending);
        let count = pending.last().map_or(0, |last| last.positions.len());
        for first in (0..count).step_by(GROUP) {
            self.read_group(&pending, first..count.min(first + GROUP), head)?;
        }
        Ok(())
    }
}
