//! [`BlockStack`]: the container of layers, which calls hooks and checks cancellation.

use crate::block::{DynBlock, Layer};
use crate::context::TransformContext;
use crate::hook::Checkpoint;
use crate::rows::Rows;
use crate::state::{StateDeclarations, StateSpec};
use crate::trace::Part;
use crate::traits::LayerStack;
use crate::{ModelError, Result};
use std::ops::Range;

/// Layers that a span of the trace covers.
const GROUP: usize = 8;

/// Consecutive layers of a model.
pub struct BlockStack<L = DynBlock> {
    first: usize,
    layers: Vec<L>,
    states: Vec<StateSpec>,
    embedded: Embedded,
}

/// Whether the input of the stack is kept for layers that add it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Embedded {
    /// If one of its layers does.
    ForOwnLayers,
    /// For layers of a later stage too.
    ForAll,
}

impl<L: Layer> BlockStack<L> {
    /// Layers `first..` of a model, with the states they declared.
    pub fn new(first: usize, layers: Vec<L>, declarations: StateDeclarations) -> Self {
        Self { first, layers, states: declarations.into_specs(), embedded: Embedded::ForOwnLayers }
    }

    /// Keeps what was embedded for layers of later stages.
    pub fn keeping_embedded(mut self) -> Self {
        self.embedded = Embedded::ForAll;
        self
    }

    /// Whether its input must be kept: in a later stage that is not the embedding.
    fn keeps_embedded(&self) -> bool {
        let reads = || self.embedded == Embedded::ForAll || self.layers.iter().any(Layer::reads_embedding);
        self.first == 0 && reads()
    }

    fn run_layer(&self, layer: &L, mut hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        hidden = context.hooks.before(hidden, context)?;
        hidden = layer.forward(hidden, context)?;
        hidden = context.hooks.after(hidden, context)?;
        context.checkpoint(Checkpoint::LayerOut, &hidden)?;
        Ok(hidden)
    }

    /// A layer that sees later tokens needs all tokens in one step; one that takes whole prompts, those of the prompt.
    fn check_whole(&self, context: &TransformContext) -> Result<()> {
        let Some(part) = context.layout.sequences().iter().find(|part| !part.is_whole()) else {
            return Ok(());
        };
        if !self.is_bidirectional() {
            let cut = context.layout.sequences().iter().find(|part| !part.is_whole() && part.rows.len() > 1);
            return match cut.filter(|_| self.takes_whole_prompts()) {
                None => Ok(()),
                Some(part) => Err(ModelError::Layout(format!(
                    "this model routes whole prompts: a prompt cannot be split into chunks; sequence {:?} has {} rows \
                     from position {}",
                    part.sequence,
                    part.rows.len(),
                    part.first_position
                ))),
            };
        }
        Err(ModelError::Layout(format!(
            "this model is bidirectional: a sequence must be computed in one step; sequence {:?} has {} rows from \
             position {}",
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

    fn is_bidirectional(&self) -> bool {
        self.layers.iter().any(Layer::is_bidirectional)
    }

    fn takes_whole_prompts(&self) -> bool {
        self.layers.iter().any(Layer::takes_whole_prompts)
    }

    fn has_two_streams(&self) -> bool {
        self.layers.iter().any(Layer::begins_run)
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.layers.iter().find_map(Layer::company_dependent)
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
        if self.keeps_embedded() {
            context.embedded = Some(context.compute.backend.copy(&hidden)?);
        }
        let mut group = None;
        for (index, layer) in self.layers().zip(&self.layers) {
            context.check_cancelled()?;
            if (index - self.first).is_multiple_of(GROUP) {
                // The one before ends first.
                drop(group.take());
                group = Some(tracing::debug_span!("layers", first = index, rows).entered());
            }
            context.layer = index;
            hidden = context
                .timed(Part::Layer, |context| self.run_layer(layer, hidden, context))
                .map_err(|error| error.in_layer(index))?;
        }
        Ok(hidden)
    }
}
