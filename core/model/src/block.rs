//! [`TransformerBlock`]: two branches on the residual stream.

use crate::context::TransformContext;
use crate::hook::Checkpoint;
use crate::param::Param;
use crate::rows::Rows;
use crate::trace::Part;
use crate::traits::{FeedForward, Norm, Raw, SequenceMixer};
use crate::{ModelError, Result};
use menagerie_formulas::{BranchInput, ParallelInput};

/// Whether the feed-forward norms its input itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreNorm {
    /// Each branch has its own.
    #[default]
    Own,
    /// The feed-forward reads what the mixer reads, through the mixer's `pre` norm, which is computed once.
    Shared,
}

/// `h = reads; h = pre(h); h = part(h); h = post(h); x = x + scale * h; x = after(x)`, and with `again`, where `i` is the stream
/// before the branch was added: `x = again(x + i)`.
///
/// This one form is the sequential block (`pre`), the parallel one (`reads` the block's input), post-norm (`post`),
/// sandwich (`pre` and `post`), BERT's (`after`) and that of Jina's BERT for code (`again`).
pub struct Branch<N, P> {
    /// Norm before the part.
    pub pre: Option<N>,
    /// Mixer or feed-forward.
    pub part: P,
    /// Norm on what the part gives.
    pub post: Option<N>,
    /// Norm on the stream once the branch is added.
    pub after: Option<N>,
    /// Norm on what `after` gives with the stream before the branch added once more.
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
}

/// A norm of a block, as [`Part::Norm`] of a trace.
fn normed<N: Norm>(norm: &N, x: &Rows, context: &TransformContext) -> Result<Rows> {
    context.timed_shared(Part::Norm, |context| norm.forward(x, context))
}

impl<N: Norm, P> Branch<N, P> {
    /// The rows it reads, of the stream and the block's input.
    fn read<'a>(&self, stream: &'a Rows, block_input: &'a Rows) -> &'a Rows {
        match self.reads {
            BranchInput::Stream => stream,
            BranchInput::BlockInput => block_input,
        }
    }

    /// The normed rows; `None` where the part reads them as they are.
    fn enter(&self, x: &Rows, context: &TransformContext) -> Result<Option<Rows>> {
        self.pre.as_ref().map(|norm| normed(norm, x, context)).transpose()
    }

    /// The stream with the branch added.
    fn leave(
        &self,
        mut branch: Rows,
        stream: &Rows,
        checkpoint: Checkpoint,
        context: &TransformContext,
    ) -> Result<Rows> {
        if let Some(norm) = &self.post {
            branch = normed(norm, &branch, context)?;
        }
        context.checkpoint(checkpoint, &branch)?;
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

/// Which of two streams is held while a stack renews the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// The one that was renewed last: the other stack runs now.
    Current,
    /// The one that was held: the same stack runs again.
    Held,
}

/// How a run of one of two stacks begins: with the sum of the stream as it stands and the one that is held (HRM, Wang et
/// al., 2025).
pub struct Entry {
    /// Which of the two is held from here on.
    pub holds: Holds,
    /// `[D]`: stands for the stream held before the first run.
    pub start: Option<Param>,
}

impl Entry {
    /// The rows that the run begins with.
    fn begin(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        let kept = match self.holds {
            Holds::Current => Some(backend.copy(&hidden)?),
            Holds::Held => None,
        };
        let sum = match (&self.start, &context.held) {
            (Some(start), _) => backend.add_vector(hidden, start)?,
            (None, Some(held)) => backend.add(hidden, held)?,
            (None, None) => {
                return Err(ModelError::Unsupported(
                    "a stack of blocks in a part of a model without the other stream; run the model in one piece".to_owned(),
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
/// Experts beside a dense feed-forward (Grok 2; Gemma 4; Arctic, whose experts read the block's input).
pub struct Beside<N, P> {
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

/// What a feed-forward of a block can read.
#[derive(Clone, Copy)]
struct Inputs<'a> {
    branch: &'a Rows,
    stream: &'a Rows,
    block: &'a Rows,
}

impl<N: Norm, F: FeedForward> Beside<N, F> {
    /// The output of the first feed-forward with that of the second added.
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

/// A mixer branch and a feed-forward branch, of which a block may lack either; perhaps a second feed-forward beside the
/// first, a third branch after it, and a number that multiplies what the block gives.
///
/// Generic, so that a model written by hand names its types:
/// `TransformerBlock<RmsNorm, CausalAttention, GatedFeedForward>`; [`DynBlock`] is the one assembled from data.
pub struct TransformerBlock<N, A, F> {
    mixer: Option<Branch<N, A>>,
    feed_forward: Option<Branch<N, F>>,
    pre: PreNorm,
    beside: Option<Beside<N, F>>,
    last: Option<Branch<N, F>>,
    embedding_scale: Option<f32>,
    output_scale: f32,
    output_norm: Option<N>,
    entry: Option<Entry>,
}

/// A block assembled from data.
pub type DynBlock = TransformerBlock<Box<dyn Norm>, Box<dyn SequenceMixer>, Box<dyn FeedForward>>;

impl<N: Norm, A: SequenceMixer, F: FeedForward> TransformerBlock<N, A, F> {
    /// A block of these branches, run in this order.
    pub fn new(mixer: Option<Branch<N, A>>, feed_forward: Option<Branch<N, F>>) -> Self {
        Self {
            mixer,
            feed_forward,
            pre: PreNorm::Own,
            beside: None,
            last: None,
            embedding_scale: None,
            output_scale: 1.0,
            output_norm: None,
            entry: None,
        }
    }

    /// Adds a second feed-forward to the first one's output.
    pub fn with_beside(mut self, beside: Beside<N, F>) -> Self {
        self.beside = Some(beside);
        self
    }

    /// Adds a third branch, after the feed-forward.
    pub fn with_last(mut self, last: Branch<N, F>) -> Self {
        self.last = Some(last);
        self
    }

    /// Adds the embedded rows times `scale` to what the block gives.
    pub fn with_embedding(mut self, scale: f32) -> Self {
        self.embedding_scale = Some(scale);
        self
    }

    /// Makes the block the first of a run of one of two stacks.
    pub fn with_entry(mut self, entry: Entry) -> Self {
        self.entry = Some(entry);
        self
    }

    /// Norms what the block gives, once it is scaled.
    pub fn with_output_norm(mut self, norm: N) -> Self {
        self.output_norm = Some(norm);
        self
    }

    /// Multiplies what the block gives.
    pub fn with_output_scale(mut self, scale: f32) -> Self {
        self.output_scale = scale;
        self
    }

    /// Says whether the feed-forward shares the mixer's `pre` norm.
    pub fn with_pre(mut self, pre: PreNorm) -> Self {
        self.pre = pre;
        self
    }
}

impl<N: Norm, A, F> TransformerBlock<N, A, F> {
    /// What follows the branches.
    fn finish(&self, mut out: Rows, context: &TransformContext) -> Result<Rows> {
        let backend = &context.compute.backend;
        if let Some(scale) = self.embedding_scale {
            let Some(embedded) = &context.embedded else {
                return Err(ModelError::Unsupported(
                    "a block that adds the embedded rows again, in a part of a model without them; run the model in one piece"
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

    /// Whether a token sees later ones of its sequence.
    fn looks_ahead(&self) -> bool;

    /// Whether it adds the embedded rows again, which the container then keeps for it.
    fn reads_embedding(&self) -> bool {
        false
    }

    /// Whether a prompt must be computed in one step ([`FeedForward::takes_whole_prompts`]).
    fn takes_whole_prompts(&self) -> bool {
        false
    }
}

impl<N: Norm, A: SequenceMixer, F: FeedForward> Layer for TransformerBlock<N, A, F> {
    fn forward(&self, mut hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        if let Some(entry) = &self.entry {
            hidden = entry.begin(hidden, context)?;
        }
        let (mut mixed, mut shared) = (None, None);
        if let Some(branch) = &self.mixer {
            let normed = branch.enter(&hidden, context)?;
            let input = normed.as_ref().unwrap_or(&hidden);
            let out = context.timed(Part::Mixer, |context| branch.part.forward(input, context))?;
            mixed = Some(branch.leave(out, &hidden, Checkpoint::AttnOut, context)?);
            shared = normed.filter(|_| self.pre == PreNorm::Shared);
        }
        let mut stream = mixed;
        if let Some(branch) = &self.feed_forward {
            let now = stream.as_ref().unwrap_or(&hidden);
            let read = branch.read(now, &hidden);
            let normed = match shared {
                Some(normed) => Some(normed),
                None => branch.enter(read, context)?,
            };
            let input = normed.as_ref().unwrap_or(read);
            let raw = Raw { stream: read, block: &hidden };
            let inputs = Inputs { branch: input, stream: now, block: &hidden };
            let mut out =
                context.timed(Part::FeedForward, |context| branch.part.forward(input, raw, context))?;
            if let Some(beside) = &self.beside {
                out = beside.add(out, inputs, context)?;
            }
            drop(normed);
            stream = Some(branch.leave(out, now, Checkpoint::FfnOut, context)?);
        }
        if let Some(branch) = &self.last {
            let now = stream.as_ref().unwrap_or(&hidden);
            let read = branch.read(now, &hidden);
            let normed = branch.enter(read, context)?;
            let raw = Raw { stream: read, block: &hidden };
            let input = normed.as_ref().unwrap_or(read);
            let out = context.timed(Part::FeedForward, |context| branch.part.forward(input, raw, context))?;
            stream = Some(branch.leave(out, now, Checkpoint::LastOut, context)?);
        }
        self.finish(stream.unwrap_or(hidden), context)
    }

    fn reads_embedding(&self) -> bool {
        self.embedding_scale.is_some()
    }

    fn takes_whole_prompts(&self) -> bool {
        self.feed_forward.as_ref().is_some_and(|branch| branch.part.takes_whole_prompts())
    }

    fn looks_ahead(&self) -> bool {
        self.mixer.as_ref().is_some_and(|branch| branch.part.looks_ahead())
    }
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn forward(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        (**self).forward(hidden, context)
    }

    fn looks_ahead(&self) -> bool {
        (**self).looks_ahead()
    }

    fn reads_embedding(&self) -> bool {
        (**self).reads_embedding()
    }

    fn takes_whole_prompts(&self) -> bool {
        (**self).takes_whole_prompts()
    }
}
