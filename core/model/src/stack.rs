//! [`BlockStack`]: the container of layers, which honours hooks, checkpoints and cancellation.

use crate::block::{DynBlock, Layer};
use crate::context::TransformContext;
use crate::hook::Checkpoint;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateSpec};
use crate::traits::LayerStack;
use crate::{ModelError, Result};
use std::ops::Range;

/// Says whether the weights can still be read; asked once per forward.
pub type WeightGuard = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// Consecutive layers of a model.
pub struct BlockStack<L = DynBlock> {
    first: usize,
    layers: Vec<L>,
    states: Vec<StateSpec>,
    guard: Option<WeightGuard>,
}

impl<L: Layer> BlockStack<L> {
    /// Layers `first..` of a model, with the states they declared.
    pub fn new(first: usize, layers: Vec<L>, declarations: StateDeclarations) -> Self {
        Self { first, layers, states: declarations.into_specs(), guard: None }
    }

    /// Asks `guard` after every forward.
    pub fn with_guard(mut self, guard: WeightGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    fn run_layer(&self, layer: &L, mut hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        let (index, hooks, layout, compute) = (context.layer, context.hooks, context.layout, context.compute);
        let (rows, cols) = (hidden.rows(), hidden.cols());
        for hook in hooks.iter().filter(|hook| hook.layers().contains(&index)) {
            if let Some(replaced) = hook.before_layer(index, &hidden, layout, compute)? {
                replaced.expect_shape(rows, cols, "rows a hook put before the layer")?;
                hidden = replaced;
            }
        }
        hidden = layer.forward(hidden, context)?;
        context.checkpoint(Checkpoint::LayerOut, &hidden)?;
        for hook in hooks.iter().filter(|hook| hook.layers().contains(&index)) {
            if let Some(replaced) = hook.after_layer(index, &hidden, layout, compute)? {
                replaced.expect_shape(rows, cols, "rows a hook put after the layer")?;
                hidden = replaced;
            }
        }
        Ok(hidden)
    }

    /// A layer that sees later tokens needs all of them in one step; one that takes whole prompts, those of the prompt.
    fn check_whole(&self, context: &TransformContext) -> Result<()> {
        let Some(part) = context.layout.sequences().iter().find(|part| !part.is_whole()) else {
            return Ok(());
        };
        if !self.looks_ahead() {
            let cut = context.layout.sequences().iter().find(|part| !part.is_whole() && part.rows.len() > 1);
            return match cut.filter(|_| self.takes_whole_prompts()) {
                None => Ok(()),
                Some(part) => Err(ModelError::Layout(format!(
                    "a mixture of this model chooses for a whole prompt, which must be computed in one step; sequence {:?} \
                     gives {} rows from position {}",
                    part.sequence,
                    part.rows.len(),
                    part.first_position
                ))),
            };
        }
        Err(ModelError::Layout(format!(
            "layers of this model see later tokens, so a sequence must be computed in one step; sequence {:?} gives {} \
             rows from position {}",
            part.sequence,
            part.rows.len(),
            part.first_position
        )))
    }
}

impl<L: Layer> LayerStack for BlockStack<L> {
    fn layers(&self) -> Range<usize> {
        self.first..self.first + self.layers.len()
    }

    fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn looks_ahead(&self) -> bool {
        self.layers.iter().any(Layer::looks_ahead)
    }

    fn takes_whole_prompts(&self) -> bool {
        self.layers.iter().any(Layer::takes_whole_prompts)
    }

    fn transform(&self, mut hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        let rows = context.layout.rows();
        if hidden.rows() != rows {
            return Err(ModelError::Layout(format!(
                "the layout has {rows} rows, the step {} hidden rows",
                hidden.rows()
            )));
        }
        self.check_whole(context)?;
        context.states.prepare(context.layout)?;
        if self.layers.iter().any(Layer::reads_embedding) {
            context.embedded = Some(context.compute.backend.copy(&hidden)?);
        }
        for (index, layer) in self.layers().zip(&self.layers) {
            context.check_cancelled()?;
            context.layer = index;
            hidden = self.run_layer(layer, hidden, context).map_err(|error| error.in_layer(index))?;
        }
        if let Some(guard) = &self.guard {
            guard()?;
        }
        Ok(hidden)
    }
}
