//! [`BlockStack`]: the container of layers, which honours hooks, checkpoints and cancellation.

use crate::block::{DynBlock, Layer};
use crate::context::TransformContext;
use crate::hook::Checkpoint;
use crate::state::{StateDeclarations, StateSpec};
use crate::traits::LayerStack;
use crate::{ModelError, Result, ops};
use candle_core::Tensor;
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
    ///
    /// # Errors
    /// [`ModelError::State`] if the layers report other states than were declared.
    pub fn new(first: usize, layers: Vec<L>, declarations: StateDeclarations) -> Result<Self> {
        let states = declarations.into_specs();
        let reported: Vec<StateSpec> = layers.iter().flat_map(Layer::states).collect();
        let unknown = reported.iter().find(|spec| !states.iter().any(|known| known.name() == spec.name()));
        if let Some(unknown) = unknown {
            return Err(ModelError::State(format!(
                "{} is kept by a layer but was not declared; declared are {:?}",
                unknown.name(),
                states.iter().map(StateSpec::name).collect::<Vec<_>>()
            )));
        }
        Ok(Self { first, layers, states, guard: None })
    }

    /// Asks `guard` after every forward.
    pub fn with_guard(mut self, guard: WeightGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    fn run_layer(&self, layer: &L, mut hidden: Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let (index, hooks, layout) = (context.layer, context.hooks, context.layout);
        let shape = hidden.dims().to_vec();
        for hook in hooks.iter().filter(|hook| hook.layers().contains(&index)) {
            if let Some(replaced) = hook.before_layer(index, &hidden, layout)? {
                hidden = same_shape(replaced, &shape, "rows a hook put before the layer")?;
            }
        }
        hidden = layer.forward(hidden, context)?;
        context.checkpoint(Checkpoint::LayerOut, &hidden)?;
        for hook in hooks.iter().filter(|hook| hook.layers().contains(&index)) {
            if let Some(replaced) = hook.after_layer(index, &hidden, layout)? {
                hidden = same_shape(replaced, &shape, "rows a hook put after the layer")?;
            }
        }
        Ok(hidden)
    }
}

fn same_shape(replaced: Tensor, shape: &[usize], what: &str) -> Result<Tensor> {
    if replaced.dims() == shape {
        return Ok(replaced);
    }
    Err(ModelError::Shape {
        what: what.to_owned(),
        expected: format!("{shape:?}"),
        found: format!("{:?}", replaced.dims()),
    })
}

impl<L: Layer> LayerStack for BlockStack<L> {
    fn layers(&self) -> Range<usize> {
        self.first..self.first + self.layers.len()
    }

    fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn transform(&self, hidden: Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let rows = context.layout.rows();
        let (found, _) = ops::dims2(&hidden, "rows of the step")?;
        if found != rows || context.tokens.len() != rows {
            return Err(ModelError::Layout(format!(
                "the layout has {rows} rows, the step {found} hidden rows and {} tokens",
                context.tokens.len()
            )));
        }
        context.states.prepare(context.layout)?;
        let mut hidden = hidden;
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
