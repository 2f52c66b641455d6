//! [`assemble`]: a config and weights to a model, or to a stage of it.

use crate::assembler::claims::{Claim, IgnoredTensor};
use crate::assembler::dims::of;
use crate::assembler::ends::EmbeddingEnd;
use crate::assembler::place::ComponentPlace;
use crate::assembler::{Assembler, TensorSite};
use crate::fault::AssemblyFaults;
use crate::options::{AssembleOptions, Purpose};
use crate::source::WeightSource;
use menagerie_model::{
    BlockStack, Branch, BranchPart, DynBlock, EmbeddingModel, FeedForward, FirstStage, LastStage,
    MiddleStage, ModelShape, Norm, ParallelFeedForward, PreNorm, SequenceMixer, SlotDeclarations, Stage,
    StageBody, StagePosition, StreamEntry, TransformerBlock, WholeModel,
};
use menagerie_registry::{BuildResult, ComponentFactory, TensorPart};
use menagerie_spec::ModelConfig;
use menagerie_spec::config::{self, BesideConfig, BranchConfig, EntryConfig, HeadKind, LayerConfig};
use menagerie_spec::kind::Component as Config;
use std::ops::Range;

/// An assembled model, or a stage of one.
pub enum AssembledModel {
    /// Embedding, all layers and head.
    Whole(WholeModel),
    /// Embedding and the first layers.
    First(FirstStage),
    /// Only layers.
    Middle(MiddleStage),
    /// The last layers and the head.
    Last(LastStage),
    /// Embedding, all layers and pooling: a model without a head.
    Encoder(EmbeddingModel),
}

/// A model, and the tensors that it uses.
pub struct Assembly {
    /// The model, or the stage of it.
    pub model: AssembledModel,
    /// The claimed tensors in the order of the file, with their roles.
    pub claims: Vec<Claim>,
    /// The tensors that are ignored on purpose.
    pub ignored: Vec<IgnoredTensor>,
    /// The slots that were declared up to its last layer, including those of previous stages.
    pub slots: SlotDeclarations,
    /// How many of the slots were declared before each of its layers.
    pub slots_before: Vec<usize>,
    /// Whether each tensor of the file is claimed or ignored.
    pub(crate) covered: Vec<bool>,
}

impl Assembly {
    /// The model as a stage; `None` for an encoder.
    pub fn into_stage(self) -> Option<Stage> {
        match self.model {
            AssembledModel::Whole(model) => Some(Stage::Only(model)),
            AssembledModel::First(stage) => Some(Stage::First(stage)),
            AssembledModel::Middle(stage) => Some(Stage::Middle(stage)),
            AssembledModel::Last(stage) => Some(Stage::Last(stage)),
            AssembledModel::Encoder(_) => None,
        }
    }

    /// The layers, which every model and stage has.
    pub fn body(&self) -> &StageBody {
        match &self.model {
            AssembledModel::Whole(model) => &model.body,
            AssembledModel::First(stage) => &stage.body,
            AssembledModel::Middle(stage) => &stage.body,
            AssembledModel::Last(stage) => &stage.body,
            AssembledModel::Encoder(model) => &model.body,
        }
    }

    /// Bytes of the claimed tensors.
    pub fn weight_bytes(&self) -> u64 {
        self.claims.iter().map(|claim| claim.tensor.bytes).sum()
    }

    /// Whether every claimed tensor is F32. Such models are computed and cached in f32.
    pub fn is_f32(&self) -> bool {
        self.claims.iter().all(|claim| claim.tensor.kind == "F32")
    }

    /// The number of parameters: of numbers in the claimed tensors.
    pub fn parameters(&self) -> u64 {
        self.claims.iter().map(|claim| claim.tensor.dims.iter().product::<u64>()).sum()
    }
}

/// Builds a model, or a stage of it, over the bytes of `source`.
///
/// # Errors
/// All faults at once: missing tensors with the most similar name, wrong shapes, unsupported types, tensors that no
/// component uses. The same fault in many layers is one line.
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
    let own = config.layers.get(range.clone()).unwrap_or(&[]);
    let runs = |block: usize| own.iter().any(|layer| layer.index == block);
    assembler.report_unclaimed(|layer| only || layer.is_some_and(runs));
    match built {
        Ok(model) if assembler.faults.is_empty() => {
            let claims = assembler.claims.list(source);
            let entries = source.entries().iter().enumerate().take(source.file_tensors());
            let ignored = entries.filter(|(index, _)| !assembler.claims.is_claimed(*index));
            let ignored = ignored.filter_map(|(index, tensor)| {
                let reason = assembler.ignored(index)?;
                Some(IgnoredTensor { tensor: tensor.clone(), reason })
            });
            let ignored = ignored.collect();
            let covered = (0..source.file_tensors())
                .map(|index| assembler.claims.is_claimed(index) || assembler.ignored(index).is_some())
                .collect();
            let (slots, slots_before) = (assembler.slots, assembler.slots_before);
            Ok(Assembly { model, claims, ignored, slots, slots_before, covered })
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
                "layers {}..{} cannot be a stage with position {position:?} of a model of {count} layers",
                range.start, range.end
            );
            self.fault(None, &text);
        }
    }

    fn build(&mut self, range: &Range<usize>, position: StagePosition) -> BuildResult<AssembledModel> {
        let encoder = self.is_encoder();
        let (embeds, ends) = match position {
            StagePosition::Only => (true, true),
            StagePosition::First => (true, false),
            StagePosition::Middle => (false, false),
            StagePosition::Last => (false, true),
        };
        if encoder && position != StagePosition::Only {
            return Err(self.fault(None, "an encoder cannot be split into stages"));
        }
        let embedding = embeds.then(|| self.embedding());
        let config = self.config;
        let layers = config.layers.get(range.clone()).unwrap_or(&[]);
        let mut blocks: Vec<BuildResult<DynBlock>> = Vec::with_capacity(layers.len());
        for layer in layers {
            self.slots_before.push(self.slots.specs().len());
            blocks.push(self.block(layer));
        }
        let head = (ends && !encoder).then(|| self.head());
        let heads: &[_] = if encoder { &[] } else { &config.nextn };
        let mut nextn = Vec::with_capacity(heads.len());
        for head in heads {
            nextn.push(match position {
                StagePosition::Only => self.nextn(head),
                _ => {
                    let text =
                        "a head for further tokens needs the whole model: leave out the stages or the head";
                    Err(self.fault(None, text))
                }
            });
        }
        let pooling = (ends && encoder).then(|| self.pooling());
        let blocks = blocks.into_iter().collect::<BuildResult<Vec<_>>>()?;
        self.check_slots(position)?;
        let nextn = nextn.into_iter().collect::<BuildResult<Vec<_>>>()?;
        let mut stack = BlockStack::new(range.start, blocks, std::mem::take(&mut self.states));
        if embeds && config.layers.iter().any(|layer| layer.embedding_scale.is_some()) {
            stack = stack.keeping_embedded();
        }
        let body = StageBody { shape: self.model_shape(), stack: Box::new(stack) };
        Ok(match (embedding.transpose()?, head.transpose()?, pooling.transpose()?) {
            (Some(embedding), _, Some(EmbeddingEnd { norm, pooling, classifier, dense })) => {
                AssembledModel::Encoder(EmbeddingModel { body, embedding, norm, pooling, classifier, dense })
            }
            (Some(embedding), Some(head), None) => {
                AssembledModel::Whole(WholeModel { body, embedding, head, nextn })
            }
            (Some(embedding), None, None) => AssembledModel::First(FirstStage { body, embedding }),
            (None, Some(head), _) => AssembledModel::Last(LastStage { body, head }),
            (None, None, _) => AssembledModel::Middle(MiddleStage { body }),
        })
    }

    /// Refuses a stage of a model with slots if the slots of the previous stages are unknown.
    fn check_slots(&mut self, position: StagePosition) -> BuildResult<()> {
        let alone = position != StagePosition::Only && self.options.slots.is_none();
        let Some(slot) = self.slots.specs().first().filter(|_| alone) else {
            return Ok(());
        };
        let text = format!(
            "layers of this model pass rows to later layers (slot `{}`), so a stage needs the slots of the previous stages; \
             assemble the stages in order",
            slot.name
        );
        Err(self.fault(None, &text))
    }

    fn is_encoder(&self) -> bool {
        self.config.output.head == HeadKind::None || self.options.purpose == Purpose::Vectors
    }

    fn model_shape(&self) -> ModelShape {
        // All layers count, not only those of this stage: all stages change the rope regime together.
        let mixers = self.config.layers.iter().filter_map(|layer| layer.mixer.as_ref());
        ModelShape {
            n_layers: self.config.layers.len(),
            max_seq_len: self.config.context_length,
            embedding_length: self.config.embedding_length,
            rope_regime_limit: mixers.filter_map(Config::regime_limit).min(),
        }
    }

    pub(crate) fn block(&mut self, config: &LayerConfig) -> BuildResult<DynBlock> {
        let LayerConfig {
            index,
            mixer,
            mixer_branch,
            feed_forward,
            feed_forward_branch,
            beside,
            last,
            last_branch,
            embedding_scale,
            output_scale,
            loop_norm,
            entry,
        } = config;
        let layer = *index;
        let mixer = mixer.as_ref().map(|config| {
            let part = self.mixer(config, layer);
            self.branch(mixer_branch, part, layer)
        });
        let feed_forward = feed_forward
            .as_ref()
            .map(|config| {
                let part = self.wrapped_feed_forward(config, layer);
                self.branch(feed_forward_branch, part, layer)
            })
            .transpose();
        let beside = beside.as_ref().map(|config| self.parallel(config, layer)).transpose();
        let last = last
            .as_ref()
            .map(|config| {
                let part = self.feed_forward(config, layer);
                self.branch(last_branch, part, layer)
            })
            .transpose();
        let [embedding_scale, scale] = [embedding_scale, output_scale]
            .map(|role| role.as_ref().map(|role| self.number(role, layer)).transpose());
        let mixer = mixer.transpose()?.map(|branch| branch.map(BranchPart::Mixer));
        let (feed_forward, beside, last) = (feed_forward?, beside?, last?);
        let feed_forward = feed_forward.map(|branch| {
            branch.map(|first| match beside {
                Some(second) => BranchPart::Parallel(first, second),
                None => BranchPart::FeedForward(first),
            })
        });
        let last = last.map(|branch| branch.map(BranchPart::FeedForward));
        let branches = mixer.into_iter().chain(feed_forward).chain(last).collect();
        Ok(TransformerBlock {
            branches,
            pre: shared_pre(config),
            embedding_scale: embedding_scale?,
            entry: entry.as_ref().map(|entry| self.entry(entry)).transpose()?,
            output_norm: self.site_norm(loop_norm.as_ref(), None)?,
            output_scale: scale?.unwrap_or(1.0),
        })
    }

    /// The start of a run through one of two stacks.
    fn entry(&mut self, config: &EntryConfig) -> BuildResult<StreamEntry> {
        let EntryConfig { holds, start } = config;
        let start = start
            .as_ref()
            .map(|role| {
                let site = TensorSite { role, layer: None };
                let row = self.values(site, TensorPart::Main, &[of("D", self.width())])?;
                self.vector(site, row)
            })
            .transpose();
        Ok(StreamEntry { holds: *holds, start: start? })
    }

    /// The single number of a block's tensor.
    fn number(&mut self, role: &str, layer: usize) -> BuildResult<f32> {
        let site = TensorSite { role, layer: Some(layer) };
        let values = self.values(site, TensorPart::Main, &[of("1", 1)])?;
        values.first().copied().ok_or_else(|| self.fault(site.layer, &format!("{role}: the tensor is empty")))
    }

    pub(crate) fn feed_forward(
        &mut self,
        config: &Config,
        layer: usize,
    ) -> BuildResult<Box<dyn FeedForward>> {
        match self.factory(config) {
            Some(ComponentFactory::FeedForward(build)) => {
                build(config, &mut ComponentPlace::of_block(self, layer, config))
            }
            _ => self.no_factory(config, Some(layer)),
        }
    }

    fn parallel(
        &mut self,
        config: &BesideConfig,
        layer: usize,
    ) -> BuildResult<ParallelFeedForward<Box<dyn Norm>, Box<dyn FeedForward>>> {
        let BesideConfig { part, reads, pre, post, first_post, factor } = config;
        let part = self.feed_forward(part, layer);
        let [pre, post, first_post] =
            [pre, post, first_post].map(|site| self.site_norm(site.as_ref(), Some(layer)));
        Ok(ParallelFeedForward {
            part: part?,
            reads: *reads,
            pre: pre?,
            post: post?,
            first_post: first_post?,
            factor: *factor,
        })
    }

    /// The mixer of a layer, or one inside another mixer.
    pub(crate) fn mixer(&mut self, config: &Config, layer: usize) -> BuildResult<Box<dyn SequenceMixer>> {
        match self.factory(config) {
            Some(ComponentFactory::Mixer(build)) => {
                build(config, &mut ComponentPlace::of_block(self, layer, config))
            }
            _ => self.no_factory(config, Some(layer)),
        }
    }

    pub(crate) fn factory(&self, config: &Config) -> Option<ComponentFactory> {
        self.options.components.get(config.kind()).map(|component| component.factory)
    }

    /// A branch around `part`. Its norms are taken even if the part has a fault, so that all faults are reported.
    fn branch<P>(
        &mut self,
        config: &BranchConfig,
        part: BuildResult<P>,
        layer: usize,
    ) -> BuildResult<Branch<Box<dyn Norm>, P>> {
        let BranchConfig { pre, post, after, again, reads, scale } = config;
        let pre = self.site_norm(pre.as_ref(), Some(layer));
        let post = self.site_norm(post.as_ref(), Some(layer));
        let after = self.site_norm(after.as_ref(), Some(layer));
        let again = self.site_norm(again.as_ref(), Some(layer));
        let (pre, part, post, after, again) = (pre?, part?, post?, after?, again?);
        Ok(Branch { pre, part, post, after, again, reads: *reads, scale: *scale })
    }
}

/// Whether both branches read the input of the block through the same norm.
fn shared_pre(config: &LayerConfig) -> PreNorm {
    let (mixer, feed_forward) = (&config.mixer_branch, &config.feed_forward_branch);
    let same = feed_forward.reads == config::BranchInput::BlockInput && mixer.pre == feed_forward.pre;
    if same && config.mixer.is_some() && mixer.pre.is_some() { PreNorm::Shared } else { PreNorm::Own }
}
