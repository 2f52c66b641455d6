//! Feed-forwards of some layers alone, to be experts of another model; and that of a layer with others beside it.

use crate::assembler::Assembler;
use crate::claims::Claim;
use crate::fault::AssemblyFaults;
use crate::options::AssembleOptions;
use crate::source::WeightSource;
use menagerie_model::FeedForward;
use menagerie_registry::BuildResult;
use menagerie_spec::ModelConfig;
use menagerie_spec::kind::Component as Config;
use std::collections::BTreeMap;

/// The feed-forwards of some layers, and the tensors they took.
pub struct LayerFeedForwards {
    /// By layer.
    pub parts: BTreeMap<usize, Box<dyn FeedForward>>,
    /// Tensors in the order of the file, with the roles that want them.
    pub claims: Vec<Claim>,
}

/// Builds the feed-forwards of `layers` over the bytes of `source`; its other tensors are not looked at.
///
/// # Errors
/// All faults at once, as those of [`crate::assemble`]; a layer without a feed-forward, one whose feed-forward keeps a state.
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
            assembler.fault(Some(layer), "no feed-forward: there is nothing that an expert could be");
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
                assembler.fault(None, "its feed-forwards could not be assembled");
            }
            Err(assembler.faults)
        }
    }
}

/// Whether a component has stacks of matrices: it is a mixture of experts itself.
pub fn is_stack(config: &Config, width: usize) -> bool {
    config.wanted(width).iter().any(|wanted| wanted.dims.len() > 2)
}

impl Assembler<'_> {
    /// The feed-forward of a layer, with what the options put around it.
    pub(crate) fn wrapped_feed_forward(
        &mut self,
        config: &Config,
        layer: usize,
    ) -> BuildResult<Box<dyn FeedForward>> {
        let around = self.options.feed_forwards.filter(|around| around.changes(layer));
        let Some(around) = around else { return self.feed_forward(config, layer) };
        // What acts on the linears of one expert alone would not know which rows it has.
        let wrapper = self.wrapper.take();
        let part = self.expert(config, layer);
        self.wrapper = wrapper;
        let whole = around.feed_forward(layer, part?);
        self.ok(Some(layer), whole)
    }

    /// A feed-forward that rows may go through in any order, or not at all.
    fn expert(&mut self, config: &Config, layer: usize) -> BuildResult<Box<dyn FeedForward>> {
        let kind = config.kind().name;
        let refused = |why: &str| {
            format!(
                "feed-forward kind `{kind}` {why}: it cannot be an expert; leave the layer out of the mixture"
            )
        };
        if is_stack(config, self.width()) {
            return Err(self.fault(Some(layer), &refused("is a mixture of experts already")));
        }
        let kept = |assembler: &Self| (assembler.states.specs().len(), assembler.slots.specs().len());
        let before = kept(self);
        let part = self.feed_forward(config, layer);
        if kept(self) != before {
            return Err(self.fault(Some(layer), &refused("keeps a state, which every token must go through")));
        }
        part
    }
}
