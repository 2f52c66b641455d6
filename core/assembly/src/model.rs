//! [`assemble`]: a config and weights to a model, or to a stage of it.

use crate::assembler::Assembler;
use crate::claims::{Claim, IgnoredTensor};
use crate::fault::AssemblyFaults;
use crate::source::WeightSource;
use candle_core::Device;
use menagerie_model::{
    BlockStack, Branch, DynBlock, FirstStage, LanguageModel, LastStage, MiddleStage, ModelShape, Reads,
    StageBody, StagePosition, TransformerBlock, TransformerModel, WholeModel,
};
use menagerie_spec::ModelConfig;
use menagerie_spec::config::{self, BranchConfig, LayerConfig, MixerConfig, RopeScaling};
use std::ops::Range;

/// Which part of a model to assemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssembleOptions {
    /// Where the part lies; says whether it has an embedding and a head.
    pub position: StagePosition,
    /// Its layers; absent = all.
    pub layers: Option<Range<usize>>,
}

impl Default for AssembleOptions {
    fn default() -> Self {
        Self { position: StagePosition::Only, layers: None }
    }
}

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
    /// The model as a whole one; `None` for a stage.
    pub fn into_language_model(self) -> Option<Box<dyn LanguageModel>> {
        match self.model {
            AssembledModel::Whole(model) => Some(Box::new(model)),
            _ => None,
        }
    }

    /// What every model and stage can do.
    pub fn transformer(&self) -> &dyn TransformerModel {
        match &self.model {
            AssembledModel::Whole(model) => model,
            AssembledModel::First(stage) => stage,
            AssembledModel::Middle(stage) => stage,
            AssembledModel::Last(stage) => stage,
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
    let mut assembler = Assembler::new(config, source);
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
        let (embeds, heads) = match position {
            StagePosition::Only => (true, true),
            StagePosition::First => (true, false),
            StagePosition::Middle => (false, false),
            StagePosition::Last => (false, true),
        };
        let embedding = embeds.then(|| self.embedding()).flatten();
        let layers = self.config.layers.get(range.clone()).unwrap_or(&[]);
        let blocks: Vec<Option<DynBlock>> = layers.iter().map(|layer| self.block(layer)).collect();
        let head = heads.then(|| self.head()).flatten();
        let blocks = blocks.into_iter().collect::<Option<Vec<_>>>()?;
        let stack = BlockStack::new(range.start, blocks, std::mem::take(&mut self.states));
        let mut stack = self.ok(None, stack)?;
        if let Some(guard) = self.source.guard() {
            stack = stack.with_guard(guard);
        }
        let body = StageBody { shape: self.model_shape(), device: Device::Cpu, stack: Box::new(stack) };
        Some(match position {
            StagePosition::Only => {
                AssembledModel::Whole(WholeModel { body, embedding: embedding?, head: head? })
            }
            StagePosition::First => AssembledModel::First(FirstStage { body, embedding: embedding? }),
            StagePosition::Middle => AssembledModel::Middle(MiddleStage { body }),
            StagePosition::Last => AssembledModel::Last(LastStage { body, head: head? }),
        })
    }

    fn model_shape(&self) -> ModelShape {
        let ropes = self.config.layers.iter().filter_map(|layer| match &layer.mixer {
            MixerConfig::Attention(attention) => attention.rope.as_ref(),
            _ => None,
        });
        let limits = ropes.filter_map(|rope| match &rope.scaling {
            RopeScaling::LongRope { original_context, .. } => Some(*original_context),
            _ => None,
        });
        ModelShape {
            n_layers: self.config.layers.len(),
            max_seq_len: self.config.context_length,
            embedding_length: self.config.embedding_length,
            rope_regime_limit: limits.min(),
        }
    }

    fn block(&mut self, config: &LayerConfig) -> Option<DynBlock> {
        let layer = config.index;
        let mixer = match &config.mixer {
            MixerConfig::Attention(attention) => {
                let part = self.attention(attention, layer);
                Some(self.branch(&config.mixer_branch, part, layer))
            }
            MixerConfig::None => None,
            other => {
                self.fault(Some(layer), &format!("mixer {other:?}: this build has no such component"));
                return None;
            }
        };
        let feed_forward = match self.feed_forward(&config.feed_forward, layer) {
            Some(None) => None,
            Some(Some(part)) => Some(self.branch(&config.feed_forward_branch, Some(part), layer)),
            None => Some(self.branch(&config.feed_forward_branch, None, layer)),
        };
        let shares = shares_pre(config) && mixer.is_some();
        let mixer = mixer.map_or(Some(None), |branch| branch.map(Some))?;
        let feed_forward = feed_forward.map_or(Some(None), |branch| branch.map(Some))?;
        let block = TransformerBlock::new(mixer, feed_forward);
        Some(if shares { block.sharing_pre() } else { block })
    }

    /// A branch around `part`; its norms are taken even where the part has a fault, so that all faults are seen.
    fn branch<P>(
        &mut self,
        config: &BranchConfig,
        part: Option<P>,
        layer: usize,
    ) -> Option<Branch<Box<dyn menagerie_model::Norm>, P>> {
        let pre = self.optional_norm(config.pre.as_ref(), Some(layer));
        let post = self.optional_norm(config.post.as_ref(), Some(layer));
        let after = self.optional_norm(config.after.as_ref(), Some(layer));
        let reads = match config.reads {
            config::Reads::Stream => Reads::Stream,
            config::Reads::BlockInput => Reads::BlockInput,
        };
        Some(Branch { pre: pre?, part: part?, post: post?, after: after?, reads, scale: config.scale })
    }
}

/// Whether both branches read the block's input through the same norm.
fn shares_pre(config: &LayerConfig) -> bool {
    let (mixer, feed_forward) = (&config.mixer_branch, &config.feed_forward_branch);
    feed_forward.reads == config::Reads::BlockInput && mixer.pre.is_some() && mixer.pre == feed_forward.pre
}
