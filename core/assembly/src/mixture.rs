//! Feed-forwards of layers as experts of another model, and the wrapper that combines feed-forwards.

use crate::assembler::Assembler;
use crate::assembler::claims::Claim;
use crate::fault::AssemblyFaults;
use crate::options::AssembleOptions;
use crate::source::WeightSource;
use menagerie_model::FeedForward;
use menagerie_registry::BuildResult;
use menagerie_spec::ModelConfig;
use menagerie_spec::kind::Component as Config;
use std::collections::BTreeMap;

/// The feed-forwards of some layers, and their tensors.
pub struct LayerFeedForwards {
    /// The feed-forward of each layer.
    pub parts: BTreeMap<usize, Box<dyn FeedForward>>,
    /// The claimed tensors with their roles, in the order of the file.
    pub claims: Vec<Claim>,
}

/// Builds the feed-forwards of `layers` from the weights of `source`. Its other tensors are not checked.
///
/// # Errors
/// All faults at once, as for [`crate::assemble`]; a layer without a feed-forward, or with one that has a state.
pub fn assemble_feed_forwards(
    config: &ModelConfig,
    source: &dyn WeightSource,
    options: &AssembleOptions,
    layers: &[usize],
) -> Result<LayerFeedForwards, AssemblyFaults> {
    let mut assembler = Assembler::new(config, source, options);
    let mut parts = BTreeMap::new();
    for &layer in layers {
        let Some(own) = config.layers.get(layer).and_then(|layer| layer.feed_forward.as_ref()) else {
            assembler.fault(
                Some(layer),
                "it has no feed-forward that could be an expert; leave the layer out of the mixture",
            );
            continue;
        };
        if let Ok(part) = assembler.expert(own, layer) {
            parts.insert(layer, part);
        }
    }
    assembler.report_missing();
    match assembler.faults.is_empty() && parts.len() == layers.len() {
        true => Ok(LayerFeedForwards { parts, claims: assembler.claims.list(source) }),
        false => {
            if assembler.faults.is_empty() {
                assembler.fault(None, "the feed-forwards could not be assembled");
            }
            Err(assembler.faults)
        }
    }
}

/// Whether a component has stacks of matrices, and is therefore a mixture of experts.
pub fn is_stack(config: &Config, width: usize) -> bool {
    config.wanted(width).iter().any(|role| role.dims.len() > 2)
}

impl Assembler<'_> {
    /// The feed-forward of a layer, wrapped if the options say so.
    pub(crate) fn wrapped_feed_forward(
        &mut self,
        config: &Config,
        layer: usize,
    ) -> BuildResult<Box<dyn FeedForward>> {
        let wrapper = self.options.feed_forwards.filter(|wrapper| wrapper.changes(layer));
        let Some(wrapper) = wrapper else { return self.feed_forward(config, layer) };
        // A wrapper around the linears of one expert would not know its rows.
        let of_linears = self.wrapper.take();
        let part = self.expert(config, layer);
        self.wrapper = of_linears;
        let whole = wrapper.feed_forward(layer, part?);
        self.ok(Some(layer), whole)
    }

    /// A feed-forward that may process any rows in any order.
    fn expert(&mut self, config: &Config, layer: usize) -> BuildResult<Box<dyn FeedForward>> {
        let kind = config.kind().name;
        let cannot_be_expert = |why: &str| {
            format!(
                "feed-forward kind `{kind}` {why} and cannot be an expert; leave the layer out of the mixture"
            )
        };
        if is_stack(config, self.width()) {
            return Err(self.fault(Some(layer), &cannot_be_expert("is already a mixture of experts")));
        }
        let declared = |assembler: &Self| (assembler.states.specs().len(), assembler.slots.specs().len());
        let before = declared(self);
        let part = self.feed_forward(config, layer);
        if declared(self) != before {
            return Err(
                self.fault(Some(layer), &cannot_be_expert("has a state that every token must update"))
            );
        }
        part
    }
}
