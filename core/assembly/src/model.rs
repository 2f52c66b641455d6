//! [`assemble`]: a config and weights to a model, or to a stage of it.

use crate::assembler::Assembler;
use crate::claims::{Claim, IgnoredTensor};
use crate::fault::AssemblyFaults;
use crate::options::AssembleOptions;
use crate::place::Place;
use crate::source::WeightSource;
use menagerie_model::{
    BlockStack, Branch, DynBlock, EmbeddingModel, Executor, FirstStage, LastStage, MiddleStage, ModelShape,
    Norm, PreNorm, Reads, StageBody, StagePosition, TransformerBlock, WholeModel,
};
use menagerie_registry::Build;
use menagerie_spec::ModelConfig;
use menagerie_spec::config::{self, BranchConfig, HeadKind, LayerConfig};
use menagerie_spec::kind::Component as Config;
use std::ops::Range;

/// What was assembled; the types differ in what they have.
pub enum AssembledModel {
    /// Embedding, all layers and head.
    Whole(WholeModel),
    /// Embedding and the first layers.
    First(FirstStage),
    /// Layers alone.
    Middle(MiddleStage),
    /// The last layers and the head.
    Last(LastStage),
    /// Embedding, all layers and a pooling: a model without a head.
    Encoder(EmbeddingModel),
}

/// A model, and which tensors it took.
pub struct Assembly {
    /// The model, or the stage of it.
    pub model: AssembledModel,
    /// Tensors in the order of the file, with the roles that want them.
    pub claims: Vec<Claim>,
    /// Tensors left out on purpose.
    pub ignored: Vec<IgnoredTensor>,
}

impl Assembly {
    /// The model as what a pipeline runs; `None` for a stage or an encoder.
    pub fn into_executor(self) -> Option<Box<dyn Executor>> {
        match self.model {
            AssembledModel::Whole(model) => Some(Box::new(model)),
            _ => None,
        }
    }

    /// What every model and stage has.
    pub fn body(&self) -> &StageBody {
        match &self.model {
            AssembledModel::Whole(model) => &model.body,
            AssembledModel::First(stage) => &stage.body,
            AssembledModel::Middle(stage) => &stage.body,
            AssembledModel::Last(stage) => &stage.body,
            AssembledModel::Encoder(model) => &model.body,
        }
    }

    /// Bytes of the tensors that were taken.
    pub fn weight_bytes(&self) -> u64 {
        self.claims.iter().map(|claim| claim.tensor.bytes).sum()
    }

    /// Whether every tensor that was taken is F32: such models are computed and cached in f32.
    pub fn is_f32(&self) -> bool {
        self.claims.iter().all(|claim| claim.tensor.kind == "F32")
    }

    /// Numbers in the tensors that were taken.
    pub fn parameters(&self) -> u64 {
        self.claims.iter().map(|claim| claim.tensor.dims.iter().product::<u64>()).sum()
    }
}

/// Builds a model, or a stage of it, over the bytes of `source`.
///
/// # Errors
/// All faults at once: missing tensors with the nearest name there is, wrong shapes, types that cannot be computed with,
/// tensors no part of the model wants; the same fault in many layers is one line.
pub fn assemble(
    config: &ModelConfig,
    source: &dyn WeightSource,
    options: &AssembleOptions,
) -> Result<Assembly, AssemblyFaults> {
    let mut assembler = Assembler::new(config, source, options);
    let range = options.layers.clone().unwrap_or(0..config.layers.len());
    assembler.check_range(&range, options.position);
    let built = assembler.build(&range, options.position);
    assembler.report_missing();
    let only = options.position == StagePosition::Only;
    assembler.report_unclaimed(|layer| only || layer.is_some_and(|layer| range.contains(&layer)));
    match built {
        Some(model) if assembler.faults.is_empty() => {
            let claims = assembler.claims.list(source);
            let entries = source.entries().iter().enumerate();
            let ignored = entries.filter(|(index, _)| !assembler.claims.is_claimed(*index));
            let ignored = ignored.filter_map(|(index, tensor)| {
                let reason = source.ignored(index, config.layers.len())?;
                Some(IgnoredTensor { tensor: tensor.clone(), reason })
            });
            Ok(Assembly { model, claims, ignored: ignored.collect() })
        }
        _ => {
            if assembler.faults.is_empty() {
                assembler.fault(None, "the model could not be assembled");
            }
            Err(assembler.faults)
        }
    }
}

impl Assembler<'_> {
    fn check_range(&mut self, range: &Range<usize>, position: StagePosition) {
        let count = self.config.layers.len();
        let fits = match position {
            StagePosition::Only => *range == (0..count),
            StagePosition::First => range.start == 0 && range.end < count,
            StagePosition::Middle => range.start > 0 && range.end < count,
            StagePosition::Last => range.start > 0 && range.end == count,
        };
        if !fits || range.start > range.end {
            let text = format!(
                "layers {}..{} are not a {position:?} stage of {count} layers",
                range.start, range.end
            );
            self.fault(None, &text);
        }
    }

    fn build(&mut self, range: &Range<usize>, position: StagePosition) -> Option<AssembledModel> {
        let encoder = self.config.output.head == HeadKind::None;
        let (embeds, ends) = match position {
            StagePosition::Only => (true, true),
            StagePosition::First => (true, false),
            StagePosition::Middle => (false, false),
            StagePosition::Last => (false, true),
        };
        if encoder && position != StagePosition::Only {
            self.fault(None, "an encoder cannot be split into stages");
            return None;
        }
        let embedding = embeds.then(|| self.embedding()).flatten();
        let config = self.config;
        let layers = config.layers.get(range.clone()).unwrap_or(&[]);
        let blocks: Vec<Option<DynBlock>> = layers.iter().map(|layer| self.block(layer)).collect();
        let head = (ends && !encoder).then(|| self.head()).flatten();
        let pooling = (ends && encoder).then(|| self.pooling()).flatten();
        let blocks = blocks.into_iter().collect::<Option<Vec<_>>>()?;
        let mut stack = BlockStack::new(range.start, blocks, std::mem::take(&mut self.states));
        if let Some(guard) = self.source.guard() {
            stack = stack.with_guard(guard);
        }
        let body = StageBody { shape: self.model_shape(), stack: Box::new(stack) };
        Some(match position {
            StagePosition::Only if encoder => {
                let (norm, pooling) = pooling?;
                AssembledModel::Encoder(EmbeddingModel { body, embedding: embedding?, norm, pooling })
            }
            StagePosition::Only => {
                AssembledModel::Whole(WholeModel { body, embedding: embedding?, head: head? })
            }
            StagePosition::First => AssembledModel::First(FirstStage { body, embedding: embedding? }),
            StagePosition::Middle => AssembledModel::Middle(MiddleStage { body }),
            StagePosition::Last => AssembledModel::Last(LastStage { body, head: head? }),
        })
    }

    fn model_shape(&self) -> ModelShape {
        // Of the whole model, whichever layers this stage has: all stages change regimes together.
        let mixers = self.config.layers.iter().filter_map(|layer| layer.mixer.as_ref());
        ModelShape {
            n_layers: self.config.layers.len(),
            max_seq_len: self.config.context_length,
            embedding_length: self.config.embedding_length,
            rope_regime_limit: mixers.filter_map(Config::regime_limit).min(),
        }
    }

    fn block(&mut self, config: &LayerConfig) -> Option<DynBlock> {
        let LayerConfig { index, mixer, mixer_branch, feed_forward, feed_forward_branch } = config;
        let layer = *index;
        let mixer = mixer.as_ref().map(|config| {
            let part = match self.factory(config) {
                Some(Build::Mixer(build)) => build(config, &mut Place::of_block(self, layer, config)),
                _ => self.no_factory(config, Some(layer)),
            };
            self.branch(mixer_branch, part, layer)
        });
        let feed_forward = feed_forward.as_ref().map(|config| {
            let part = match self.factory(config) {
                Some(Build::FeedForward(build)) => build(config, &mut Place::of_block(self, layer, config)),
                _ => self.no_factory(config, Some(layer)),
            };
            self.branch(feed_forward_branch, part, layer)
        });
        let pre = shared_pre(config);
        let mixer = mixer.map_or(Some(None), |branch| branch.map(Some))?;
        let feed_forward = feed_forward.map_or(Some(None), |branch| branch.map(Some))?;
        Some(TransformerBlock::new(mixer, feed_forward).with_pre(pre))
    }

    fn factory(&self, config: &Config) -> Option<Build> {
        self.options.components.get(config.kind()).map(|component| component.build)
    }

    /// A branch around `part`; its norms are taken even where the part has a fault, so that all faults are seen.
    fn branch<P>(
        &mut self,
        config: &BranchConfig,
        part: Option<P>,
        layer: usize,
    ) -> Option<Branch<Box<dyn Norm>, P>> {
        let BranchConfig { pre, post, after, reads, scale } = config;
        let pre = self.site_norm(pre.as_ref(), Some(layer));
        let post = self.site_norm(post.as_ref(), Some(layer));
        let after = self.site_norm(after.as_ref(), Some(layer));
        let reads = match reads {
            config::Reads::Stream => Reads::Stream,
            config::Reads::BlockInput => Reads::BlockInput,
        };
        Some(Branch { pre: pre?, part: part?, post: post?, after: after?, reads, scale: *scale })
    }
}

/// Whether both branches read the block's input through the same norm.
fn shared_pre(config: &LayerConfig) -> PreNorm {
    let (mixer, feed_forward) = (&config.mixer_branch, &config.feed_forward_branch);
    let same = feed_forward.reads == config::Reads::BlockInput && mixer.pre == feed_forward.pre;
    if same && config.mixer.is_some() && mixer.pre.is_some() { PreNorm::Shared } else { PreNorm::Own }
}
