//! [`TransformContext`]: everything a forward needs beyond weights.

use crate::adapter_set::AdapterSet;
use crate::backend::{Product, StateStep};
use crate::cancellation::Cancellation;
use crate::compute::Compute;
use crate::failure::SequenceFailure;
use crate::hidden_rows::HiddenRows;
use crate::hook::Checkpoint;
use crate::hooks::{Hooks, NO_HOOKS};
use crate::layout::{SequenceLayout, SequenceRows};
use crate::param::Param;
use crate::rope_tables::RopeTables;
use crate::rows::Rows;
use crate::scalings::Scalings;
use crate::slots::Slots;
use crate::state::StatePool;
use crate::step::InferenceStep;
use crate::trace::{Part, SpanKey, Trace};
use crate::{ModelError, Result};
use std::sync::Arc;

/// What goes into a step.
#[derive(Clone, Copy, Debug)]
pub enum StepInput<'a> {
    /// Token ids, `[T]`.
    Tokens(&'a [u32]),
    /// Rows `[T, D]` instead of token ids (images, soft prompts), row after row.
    Embeddings(&'a [f32]),
}

impl<'a> StepInput<'a> {
    /// Token ids, `[T]`; absent if rows replace them.
    pub fn tokens(self) -> Option<&'a [u32]> {
        match self {
            Self::Tokens(ids) => Some(ids),
            Self::Embeddings(_) => None,
        }
    }
}

/// Travels through a forward: input, layout, state, adapters, hooks, cancellation and per-step tables.
pub struct TransformContext<'a> {
    /// Backend and arithmetic.
    pub compute: &'a Compute,
    /// Which rows belong to which sequence.
    pub layout: &'a SequenceLayout,
    /// The input of the step; every stage has the token ids (some layers of some models need them).
    pub input: StepInput<'a>,
    /// The type of each row's token, `[T]`, in models that have types; absent = 0.
    pub token_types: Option<&'a [u32]>,
    /// The state of the sequences, written and read through state ids.
    pub states: &'a mut StatePool,
    /// The adapter sets of the step; [`crate::SequenceRows::adapters`] is an index into them.
    pub adapters: &'a [Arc<AdapterSet>],
    /// Weights of adapters per row, which multiply those of sets that use them; absent = no weights.
    pub scalings: Option<&'a Scalings>,
    /// Hooks, called in order.
    pub hooks: &'a Hooks,
    /// Where the times of its parts are recorded; absent = nowhere.
    pub trace: Option<&'a Trace>,
    /// Ends the forward from outside, at the next layer.
    pub cancelled: Cancellation<'a>,
    /// Collects the failures of single sequences. `None`: any failure fails the step.
    pub failures: Option<&'a mut Vec<SequenceFailure>>,
    /// The current layer, for errors and checkpoints.
    pub layer: usize,
    /// The embedded rows, `[T, D]`, if a layer adds them again; set by the container of the layers.
    pub embedded: Option<Rows>,
    /// The other of two streams, `[T, D]`, while a stack updates one of them; set by blocks that begin a run.
    pub held: Option<Rows>,
    /// Rows that layers get in addition to the stream, `[T * layers, width]`, token after token; set by the embedding.
    pub per_layer: Option<Rows>,
    /// The rows for the head that predicts further tokens. `None`: the states of the head are not filled.
    pub hidden_rows: Option<&'a mut HiddenRows>,
    /// Rows that layers hand to later layers of the step.
    pub slots: Slots,
    /// Rope tables of this step, by the id that a rope component got at assembly.
    pub(crate) rope_tables: RopeTables,
}

impl<'a> TransformContext<'a> {
    /// A context without adapters, hooks and cancellation.
    pub fn new(
        compute: &'a Compute,
        layout: &'a SequenceLayout,
        input: StepInput<'a>,
        states: &'a mut StatePool,
    ) -> Self {
        Self {
            compute,
            layout,
            input,
            token_types: None,
            states,
            adapters: &[],
            scalings: None,
            hooks: &NO_HOOKS,
            trace: None,
            cancelled: Cancellation::default(),
            failures: None,
            layer: 0,
            embedded: None,
            held: None,
            per_layer: None,
            hidden_rows: None,
            slots: Slots::default(),
            rope_tables: RopeTables::default(),
        }
    }

    /// A context for another pass of the same step, with the same input, states, cancellation and failures, and without
    /// adapters and hooks.
    pub fn pass<'b>(&'b mut self, layout: &'b SequenceLayout) -> TransformContext<'b>
    where
        'a: 'b,
    {
        TransformContext {
            token_types: self.token_types,
            cancelled: self.cancelled,
            trace: self.trace,
            failures: self.failures.as_deref_mut(),
            ..TransformContext::new(self.compute, layout, self.input, self.states)
        }
    }

    /// Layout and states, for an operation over state.
    pub fn state_step(&mut self) -> StateStep<'_> {
        StateStep { layout: self.layout, states: self.states }
    }

    /// Shows a value to the hooks of the current layer.
    ///
    /// # Errors
    /// What a hook returns.
    pub(crate) fn checkpoint(&self, checkpoint: Checkpoint, value: &Rows) -> Result<()> {
        self.hooks.at(checkpoint, value, self)
    }

    /// Runs a part of the step and records its time, if the step has a trace.
    ///
    /// # Errors
    /// Those of the part.
    pub fn timed<T>(&mut self, part: Part, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let Some(trace) = self.trace else { return run(self) };
        let begun = trace.begin();
        let made = run(self)?;
        trace.end(begun, self.span_of(part));
        Ok(made)
    }

    /// [`Self::timed`] for parts that change no state.
    ///
    /// # Errors
    /// Those of the part.
    pub(crate) fn timed_shared<T>(&self, part: Part, run: impl FnOnce(&Self) -> Result<T>) -> Result<T> {
        let Some(trace) = self.trace else { return run(self) };
        let begun = trace.begin();
        let made = run(self)?;
        trace.end(begun, self.span_of(part));
        Ok(made)
    }

    /// The key of a part in the trace.
    pub fn span_of(&self, part: Part) -> SpanKey {
        let inside = matches!(part, Part::Norm | Part::Mixer | Part::FeedForward | Part::Layer);
        let decodes = |part: &SequenceRows| matches!(part.step, InferenceStep::Decode { .. });
        SpanKey {
            part,
            layer: inside.then_some(self.layer as u32),
            decodes: self.layout.sequences().iter().all(decodes),
            rows: self.layout.rows() as u32,
        }
    }

    /// Records that the weights of products are read.
    pub fn reads(&self, products: &[Product]) {
        if let Some(trace) = self.trace {
            trace.reads(products.iter().map(|product| product.weight.bytes()).sum());
        }
    }

    /// Records that so many of the matrices of stacks, or rows of a table, are read.
    pub(crate) fn reads_some(&self, weight: &Param, some: usize, of: usize) {
        if let Some(trace) = self.trace {
            trace.reads((weight.bytes() as f64 * some as f64 / of.max(1) as f64) as u64);
        }
    }

    /// Records that the rows of one sequence are not usable; the first failure of a sequence stays.
    ///
    /// # Errors
    /// The failure, if the step fails as a whole.
    pub fn fail(&mut self, failure: SequenceFailure) -> Result<()> {
        let Some(failures) = &mut self.failures else { return Err(failure.error) };
        if failures.iter().all(|known| known.index != failure.index) {
            failures.push(failure);
        }
        Ok(())
    }

    /// Ends the forward if it was cancelled.
    ///
    /// # Errors
    /// [`ModelError::Cancelled`].
    pub fn check_cancelled(&self) -> Result<()> {
        if self.cancelled.is_requested() { Err(ModelError::Cancelled) } else { Ok(()) }
    }
}
