//! [`TransformerBlock`]: branches on the residual stream.

use crate::context::TransformContext;
use crate::hook::Checkpoint;
use crate::param::Param;
use crate::rows::Rows;
use crate::trace::Part;
use crate::traits::{FeedForward, Norm, Raw, SequenceMixer};
use crate::{ModelError, Result};
use menagerie_formulas::{BranchInput, HeldStream, ParallelInput};

/// Whether the feed-forward norms its input itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreNorm {
    /// Each branch has its own.
    #[default]
    Own,
    /// The feed-forward reads what the mixer reads, through the mixer's `pre` norm, which is computed once.
    Shared,
}

/// `h = reads; h = pre(h); h = part(h); h = post(h); x = x + scale * h; x = after(x)`, and with `again`, where `i` is
/// the stream before the branch was added: `x = again(x + i)`.
///
/// This one form covers the sequential block (`pre`), the parallel one (`reads` the block's input), post-norm (`post`),
/// sandwich (`pre` and `post`), BERT (`after`) and Jina's BERT for code (`again`).
pub struct Branch<N, P> {
    /// Norm before the part.
    pub pre: Option<N>,
    /// Mixer or feed-forward.
    pub part: P,
    /// Norm on the output of the part.
    pub post: Option<N>,
    /// Norm on the stream once the branch is added.
    pub after: Option<N>,
    /// A second post-norm that adds the residual once more (Jina BERT for code).
    pub again: Option<N>,
    /// What the branch reads.
    pub reads: BranchInput,
    /// Multiplies the branch before it is added (1 = none).
    pub scale: f32,
}

impl<N, P> Branch<N, P> {
    /// `x + part(pre(x))`.
    pub fn new(pre: Option<N>, part: P) -> Self {
        Self { pre, part, post: None, after: None, again: None, reads: BranchInput::Stream, scale: 1.0 }
    }

    /// The same branch with another part.
    pub fn map<Q>(self, part: impl FnOnce(P) -> Q) -> Branch<N, Q> {
        let Self { pre, part: own, post, after, again, reads, scale } = self;
        Branch { pre, part: part(own), post, after, again, reads, scale }
    }
}

/// A norm of a block, as [`Part::Norm`] of a trace.
fn normed<N: Norm>(norm: &N, x: &Rows, context: &TransformContext) -> Result<Rows> {
    context.timed_shared(Part::Norm, |context| norm.forward(x, context))
}

impl<N: Norm, P> Branch<N, P> {
    /// The rows that it reads, from the stream and the block's input.
    fn read<'a>(&self, stream: &'a Rows, block_input: &'a Rows) -> &'a Rows {
        match self.reads {
            BranchInput::Stream => stream,
            BranchInput::BlockInput => block_input,
        }
    }

    /// The normed rows; `None` if the part reads them unchanged.
    fn enter(&self, x: &Rows, context: &TransformContext) -> Result<Option<Rows>> {
        self.pre.as_ref().map(|norm| normed(norm, x, context)).transpose()
    }

    /// The stream with the branch added.
    fn leave(
        &self,
        mut branch: Rows,
        stream: &Rows,
        place: Option<Checkpoint>,
        context: &TransformContext,
    ) -> Result<Rows> {
        if let Some(norm) = &self.post {
            branch = normed(norm, &branch, context)?;
        }
        if let Some(place) = place {
            context.checkpoint(place, &branch)?;
        }
        let backend = &context.compute.backend;
        if self.scale != 1.0 {
            branch = backend.scale(branch, self.scale)?;
        }
        let sum = backend.add(branch, stream)?;
        let sum = match &self.after {
            Some(norm) => normed(norm, &sum, context)?,
            None => sum,
        };
        match &self.again {
            Some(norm) => normed(norm, &backend.add(sum, stream)?, context),
            None => Ok(sum),
        }
    }
}

/// How a run of one of two stacks begins: with the sum of the current stream and the held one (HRM, Wang et al., 2025).
pub struct StreamEntry {
    /// Which of the two streams is held from here on.
    pub holds: HeldStream,
    /// `[D]`: used instead of the held stream before the first run.
    pub start: Option<Param>,
}

impl StreamEntry {
    /// The rows that the run begins with.
    fn begin(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let kept = match self.holds {
            HeldStream::Current => Some(backend.copy(&hidden)?),
            HeldStream::Held => None,
        };
        let sum = match (&self.start, &context.held) {
            (Some(start), _) => backend.add_vector(hidden, start)?,
            (None, Some(held)) => backend.add(hidden, held)?,
            (None, None) => {
                return Err(ModelError::Unsupported(
                    "this part of the model has blocks that need a stream of another part; run the model in one piece".to_owned(),
                ));
            }
        };
        if kept.is_some() {
            context.held = kept;
        }
        Ok(sum)
    }
}

/// A second feed-forward in a branch: `f = first_post(f); g = post(part(pre(reads))); f = factor * (f + g)`.
///
/// Experts and a dense feed-forward in parallel (Grok 2; Gemma 4; Arctic, whose experts read the block's input).
pub struct ParallelFeedForward<N, P> {
    /// The second feed-forward.
    pub part: P,
    /// What it reads.
    pub reads: ParallelInput,
    /// Norm before it.
    pub pre: Option<N>,
    /// Norm on its output.
    pub post: Option<N>,
    /// Norm on the output of the first one.
    pub first_post: Option<N>,
    /// Multiplies the sum (1 = none).
    pub factor: f32,
}

/// Rows that the part of a branch can read.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    /// The input of the part, after the norm.
    branch: &'a Rows,
    /// The same before the norm.
    read: &'a Rows,
    /// The residual stream as it stands.
    stream: &'a Rows,
    /// The input of the block.
    block: &'a Rows,
}

impl<N: Norm, F: FeedForward> ParallelFeedForward<N, F> {
    /// The output of the first feed-forward plus that of the second.
    fn add(&self, mut first: Rows, inputs: Inputs, context: &mut TransformContext) -> Result<Rows> {
        if let Some(norm) = &self.first_post {
            first = normed(norm, &first, context)?;
        }
        let read = match self.reads {
            ParallelInput::Branch => inputs.branch,
            ParallelInput::Stream => inputs.stream,
            ParallelInput::BlockInput => inputs.block,
        };
        let own = self.pre.as_ref().map(|norm| normed(norm, read, context)).transpose()?;
        let raw = Raw { stream: inputs.stream, block: inputs.block };
        let input = own.as_ref().unwrap_or(read);
        let mut second =
            context.timed(Part::FeedForward, |context| self.part.forward(input, raw, context))?;
        drop(own);
        if let Some(norm) = &self.post {
            second = normed(norm, &second, context)?;
        }
        let backend = &context.compute.backend;
        let sum = backend.add(first, &second)?;
        if self.factor == 1.0 { Ok(sum) } else { backend.scale(sum, self.factor) }
    }
}

/// The part of a branch.
pub enum BranchPart<N, A, F> {
    /// A sequence mixer.
    Mixer(A),
    /// A feed-forward.
    FeedForward(F),
    /// Two feed-forwards, whose outputs are added.
    Parallel(F, ParallelFeedForward<N, F>),
}

impl<N: Norm, A: SequenceMixer, F: FeedForward> BranchPart<N, A, F> {
    fn forward(&self, inputs: Inputs, context: &mut TransformContext) -> Result<Rows> {
        let raw = Raw { stream: inputs.read, block: inputs.block };
        let (first, second) = match self {
            Self::Mixer(mixer) => {
                return context.timed(Part::Mixer, |context| mixer.forward(inputs.branch, context));
            }
            Self::FeedForward(first) => (first, None),
            Self::Parallel(first, second) => (first, Some(second)),
        };
        let out = context.timed(Part::FeedForward, |context| first.forward(inputs.branch, raw, context))?;
        match second {
            Some(second) => second.add(out, inputs, context),
            None => Ok(out),
        }
    }

    fn is_mixer(&self) -> bool {
        matches!(self, Self::Mixer(_))
    }

    fn is_bidirectional(&self) -> bool {
        matches!(self, Self::Mixer(mixer) if mixer.is_bidirectional())
    }

    fn takes_whole_prompts(&self) -> bool {
        match self {
            Self::Mixer(_) => false,
            Self::FeedForward(first) => first.takes_whole_prompts(),
            Self::Parallel(first, second) => first.takes_whole_prompts() || second.part.takes_whole_prompts(),
        }
    }

    fn company_dependent(&self) -> Option<&'static str> {
        match self {
            Self::Mixer(mixer) => mixer.company_dependent(),
            Self::FeedForward(first) => first.company_dependent(),
            Self::Parallel(first, second) => {
                first.company_dependent().or_else(|| second.part.company_dependent())
            }
        }
    }
}

/// Branches on the residual stream, run one after the other, and operations on the result of the block.
///
/// Most blocks have two, a mixer and a feed-forward ([`Self::new`]). The type is generic, so that a hand-written model
/// names its parts: `TransformerBlock<RmsNorm, Attention, GatedFeedForward>`; [`DynBlock`] is the form assembled from
/// data.
pub struct TransformerBlock<N, A, F> {
    /// The branches, in the order in which they run.
    pub branches: Vec<Branch<N, BranchPart<N, A, F>>>,
    /// Whether the feed-forward shares the mixer's `pre` norm.
    pub pre: PreNorm,
    /// Adds the embedded rows times this to the output of the block.
    pub embedding_scale: Option<f32>,
    /// Multiplies the output of the block (1 = none).
    pub output_scale: f32,
    /// Norms the output of the block, after its scale.
    pub output_norm: Option<N>,
    /// Makes the block the first of a run of one of two stacks.
    pub entry: Option<StreamEntry>,
}

/// A block assembled from data.
pub type DynBlock = TransformerBlock<Box<dyn Norm>, Box<dyn SequenceMixer>, Box<dyn FeedForward>>;

impl<N: Norm, A: SequenceMixer, F: FeedForward> TransformerBlock<N, A, F> {
    /// A block of a mixer branch and a feed-forward branch, either of which may be missing.
    pub fn new(mixer: Option<Branch<N, A>>, feed_forward: Option<Branch<N, F>>) -> Self {
        let mixer = mixer.map(|branch| branch.map(BranchPart::Mixer));
        let feed_forward = feed_forward.map(|branch| branch.map(BranchPart::FeedForward));
        Self::of(mixer.into_iter().chain(feed_forward).collect())
    }

    /// A block of these branches, run in this order, without operations on its result.
    pub fn of(branches: Vec<Branch<N, BranchPart<N, A, F>>>) -> Self {
        let (embedding_scale, output_norm, entry) = (None, None, None);
        Self { branches, pre: PreNorm::Own, embedding_scale, output_scale: 1.0, output_norm, entry }
    }
}

impl<N: Norm, A, F> TransformerBlock<N, A, F> {
    /// What follows the branches.
    fn finish(&self, mut out: Rows, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        if let Some(scale) = self.embedding_scale {
            let Some(embedded) = &context.embedded else {
                return Err(ModelError::Unsupported(
                    "this part of the model has a block that needs the embedded rows of another part; run the model in one piece"
                        .to_owned(),
                ));
            };
            out = backend.add(backend.scale(backend.copy(embedded)?, scale)?, &out)?;
        }
        if self.output_scale != 1.0 {
            out = backend.scale(out, self.output_scale)?;
        }
        match &self.output_norm {
            Some(norm) => normed(norm, &out, context),
            None => Ok(out),
        }
    }
}

/// A layer of a stack.
pub trait Layer: Send + Sync {
    /// `[T, D]` to `[T, D]`.
    ///
    /// # Errors
    /// What a part returns.
    fn forward(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows>;

    /// Fills the states of the layer as [`Self::forward`] does, without its output.
    ///
    /// # Errors
    /// What a part returns.
    fn fill(&self, hidden: Rows, context: &mut TransformContext) -> Result<()> {
        self.forward(hidden, context).map(drop)
    }

    /// Whether a token sees later tokens of its sequence.
    fn is_bidirectional(&self) -> bool;

    /// Whether it adds the embedded rows again; the container then keeps them.
    fn reads_embedding(&self) -> bool {
        false
    }

    /// Whether a prompt must be computed in one step ([`FeedForward::takes_whole_prompts`]).
    fn takes_whole_prompts(&self) -> bool {
        false
    }

    /// Whether it is the first of a run of one of two stacks ([`StreamEntry`]).
    fn begins_run(&self) -> bool {
        false
    }

    /// A component whose rows may have other bits beside other rows ([`SequenceMixer::company_dependent`]).
    fn company_dependent(&self) -> Option<&'static str> {
        None
    }
}

impl<N: Norm, A: SequenceMixer, F: FeedForward> Layer for TransformerBlock<N, A, F> {
    fn forward(&self, mut hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        if let Some(entry) = &self.entry {
            hidden = entry.begin(hidden, context)?;
        }
        let (mut stream, mut shared): (Option<Rows>, Option<Rows>) = (None, None);
        let mut places = [Checkpoint::FfnOut, Checkpoint::LastOut].into_iter();
        for branch in &self.branches {
            let now = stream.as_ref().unwrap_or(&hidden);
            let read = branch.read(now, &hidden);
            let normed = match shared.take() {
                Some(normed) => Some(normed),
                None => branch.enter(read, context)?,
            };
            let inputs =
                Inputs { branch: normed.as_ref().unwrap_or(read), read, stream: now, block: &hidden };
            let out = branch.part.forward(inputs, context)?;
            let mixer = branch.part.is_mixer();
            shared = normed.filter(|_| mixer && self.pre == PreNorm::Shared);
            let place = if mixer { Some(Checkpoint::AttnOut) } else { places.next() };
            stream = Some(branch.leave(out, now, place, context)?);
        }
        self.finish(stream.unwrap_or(hidden), context)
    }

    fn fill(&self, hidden: Rows, context: &mut TransformContext) -> Result<()> {
        let last = self.branches.iter().rposition(|branch| branch.part.is_mixer());
        let (Some(0), Some(branch), None) = (last, self.branches.first(), &self.entry) else {
            return self.forward(hidden, context).map(drop);
        };
        // Only the mixer has states, and it comes first.
        let normed = branch.enter(&hidden, context)?;
        let read = normed.as_ref().unwrap_or(&hidden);
        let inputs = Inputs { branch: read, read: &hidden, stream: &hidden, block: &hidden };
        branch.part.forward(inputs, context).map(drop)
    }

    fn reads_embedding(&self) -> bool {
        self.embedding_scale.is_some()
    }

    fn takes_whole_prompts(&self) -> bool {
        self.branches.iter().any(|branch| branch.part.takes_whole_prompts())
    }

    fn begins_run(&self) -> bool {
        self.entry.is_some()
    }

    fn company_dependent(&self) -> Option<&'static str> {
        self.branches.iter().find_map(|branch| branch.part.company_dependent())
    }

    fn is_bidirectional(&self) -> bool {
        self.branches.iter().any(|branch| branch.part.is_bidirectional())
    }
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn forward(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        (**self).forward(hidden, context)
    }

    fn fill(&self, hidden: Rows, context: &mut TransformContext) -> Result<()> {
        (**self).fill(hidden, context)
    }

    fn is_bidirectional(&self) -> bool {
        (**self).is_bidirectional()
    }

    fn reads_embedding(&self) -> bool {
        (**self).reads_embedding()
    }

    fn takes_whole_prompts(&self) -> bool {
        (**self).takes_whole_prompts()
    }

    fn begins_run(&self) -> bool {
        (**self).begins_run()
    }

    fn company_dependent(&self) -> Option<&'static str> {
        (**self).company_dependent()
    }
}
