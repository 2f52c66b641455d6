//! [`XLoraModel`]: a model whose adapters are weighted for every row and layer by a classifier over its own hidden
//! rows.

use super::xlora_classifier::XLoraClassifier;
use super::xlora_mixing::XLoraMixing;
use crate::adapter_set::AdapterSet;
use crate::cancellation::Cancellation;
use crate::compute::Compute;
use crate::context::TransformContext;
use crate::executor::{Executor, NormedExecutor, StageTrace};
use crate::failure::SequenceFailure;
use crate::hooks::Hooks;
use crate::layout::SequenceLayout;
use crate::rows::Rows;
use crate::scalings::Scalings;
use crate::stage::ModelShape;
use crate::state::{PoolOptions, StatePool, StateSpec};
use crate::trace::Trace;
use crate::{ModelError, Result};
use std::sync::Arc;

/// The state set of the pass whose logits are returned.
const TRUE_PASS: usize = 0;

/// The state set of the pass whose rows are the input of the classifier.
const SCALING_PASS: usize = 1;

/// Runs every step twice (Buehler and Buehler, 2024): first with the same weight for all adapters; the classifier
/// computes the weights of the second pass from its rows after the final norm. Each pass has its own state, so that a
/// sequence is computed step by step like any other. The inner model has no X-LoRA; it is whole or in stages.
pub struct XLoraModel {
    model: Box<dyn NormedExecutor>,
    /// One set, multiplied by the step's scalings.
    sets: [Arc<AdapterSet>; 1],
    classifier: XLoraClassifier,
    mixing: XLoraMixing,
    layers: usize,
}

impl XLoraModel {
    /// `set` is multiplied by scalings ([`AdapterSet::with_scalings`]) of `layers` layers.
    pub fn new(
        model: Box<dyn NormedExecutor>,
        set: AdapterSet,
        classifier: XLoraClassifier,
        mixing: XLoraMixing,
        layers: usize,
    ) -> Self {
        Self { model, sets: [Arc::new(set)], classifier, mixing, layers }
    }

    fn numbers(&self) -> [usize; 2] {
        [self.layers, self.sets[0].adapters().count()]
    }

    /// The weights of the step's rows.
    fn scaling_pass(&self, context: &mut TransformContext, layout: &SequenceLayout) -> Result<Scalings> {
        let [layers, adapters] = self.numbers();
        let constant = self.mixing.of_pass(layout.rows(), layers, adapters);
        let bare = layout.with_adapters(None);
        let mut pass = match &constant {
            None => context.pass(&bare),
            Some(constant) => {
                TransformContext { adapters: &self.sets, scalings: Some(constant), ..context.pass(layout) }
            }
        };
        pass.states.use_set(SCALING_PASS)?;
        let normed = self.model.normed(&mut pass)?;
        let outputs = self.classifier.forward(normed, &pass)?;
        let outputs = pass.compute.backend.read(&outputs)?;
        let mut scalings = self.mixing.scalings(&outputs, layers, adapters)?;
        for (index, part) in layout.sequences().iter().enumerate() {
            if let Err(error) = XLoraMixing::check(&scalings, part.rows.clone()) {
                pass.fail(SequenceFailure { index, position: part.first_position, error })?;
                // The others go on.
                let width = layers * adapters;
                scalings.values[part.rows.start * width..part.rows.end * width].fill(0.0);
            }
        }
        Ok(scalings)
    }
}

impl Executor for XLoraModel {
    fn shape(&self) -> &ModelShape {
        self.model.shape()
    }

    fn states(&self) -> &[StateSpec] {
        self.model.states()
    }

    fn state_sets(&self) -> usize {
        2
    }

    fn scaling_shape(&self) -> Option<[usize; 2]> {
        Some(self.numbers())
    }

    fn vocabulary(&self) -> usize {
        self.model.vocabulary()
    }

    fn logits_width(&self) -> usize {
        self.model.logits_width()
    }

    fn is_bidirectional(&self) -> bool {
        self.model.is_bidirectional()
    }

    fn takes_whole_prompts(&self) -> bool {
        self.model.takes_whole_prompts()
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.model.company_dependent()
    }

    fn pool(&self, compute: &Compute, options: PoolOptions) -> Result<StatePool> {
        self.model.pool(compute, options.with_sets(self.state_sets()))
    }

    fn restore(&self, error: &ModelError, cancelled: Cancellation) -> Result<bool> {
        self.model.restore(error, cancelled)
    }

    fn check_lens(&self) -> Result<()> {
        self.model.check_lens()
    }

    fn settle(&self, hooks: &Hooks) -> Result<()> {
        self.model.settle(hooks)
    }

    fn stage_traces(&self, trace: &Trace) -> Result<Vec<StageTrace>> {
        self.model.stage_traces(trace)
    }

    fn execute(&self, context: &mut TransformContext) -> Result<Rows> {
        if let Some(part) = context.layout.sequences().iter().find(|part| part.adapters.is_some()) {
            return Err(ModelError::Unsupported(format!(
                "sequence {} requests adapters, and X-LoRA mixes only those it was trained with; run it without adapters",
                part.sequence
            )));
        }
        let layout = context.layout.with_adapters(Some(0));
        let scalings = self.scaling_pass(context, &layout);
        // Later steps read and write the first set.
        context.states.use_set(TRUE_PASS)?;
        let scalings = scalings?;
        context.hooks.scalings(&scalings, context.layout)?;
        let kept = self.mixing.kept(&scalings);
        let hooks = context.hooks;
        let mut pass =
            TransformContext { adapters: &self.sets, scalings: Some(&kept), hooks, ..context.pass(&layout) };
        self.model.execute(&mut pass)
    }
}
