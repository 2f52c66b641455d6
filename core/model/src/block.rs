//! [`TransformerBlock`]: two branches on the residual stream.

use crate::Result;
use crate::context::TransformContext;
use crate::hook::Checkpoint;
use crate::rows::Rows;
use crate::traits::{FeedForward, Norm, SequenceMixer};

/// What a branch reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// The residual stream as it stands.
    #[default]
    Stream,
    /// The input of the whole block (parallel blocks).
    BlockInput,
}

/// Whether the feed-forward norms its input itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PreNorm {
    /// Each branch has its own.
    #[default]
    Own,
    /// The feed-forward reads what the mixer reads, through the mixer's `pre` norm, which is computed once.
    Shared,
}

/// `h = reads; h = pre(h); h = part(h); h = post(h); x = x + scale * h; x = after(x)`.
///
/// This one form is the sequential block (`pre`), the parallel one (`reads` the block's input), post-norm (`post`),
/// sandwich (`pre` and `post`) and BERT's (`after`).
pub struct Branch<N, P> {
    /// Norm before the part.
    pub pre: Option<N>,
    /// Mixer or feed-forward.
    pub part: P,
    /// Norm on what the part gives.
    pub post: Option<N>,
    /// Norm on the stream once the branch is added.
    pub after: Option<N>,
    /// What the branch reads.
    pub reads: Reads,
    /// Multiplies the branch before it is added (1 = none).
    pub scale: f32,
}

impl<N, P> Branch<N, P> {
    /// `x + part(pre(x))`.
    pub fn new(pre: Option<N>, part: P) -> Self {
        Self { pre, part, post: None, after: None, reads: Reads::Stream, scale: 1.0 }
    }
}

impl<N: Norm, P> Branch<N, P> {
    /// The normed rows; `None` where the part reads them as they are.
    fn enter(&self, x: &Rows, context: &TransformContext) -> Result<Option<Rows>> {
        self.pre.as_ref().map(|norm| norm.forward(x, context)).transpose()
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
            branch = norm.forward(&branch, context)?;
        }
        context.checkpoint(checkpoint, &branch)?;
        let backend = &context.compute.backend;
        if self.scale != 1.0 {
            branch = backend.scale(branch, self.scale)?;
        }
        let sum = backend.add(branch, stream)?;
        match &self.after {
            Some(norm) => norm.forward(&sum, context),
            None => Ok(sum),
        }
    }
}

/// A mixer branch and a feed-forward branch; a block may lack either.
///
/// Generic, so that a model written by hand names its types:
/// `TransformerBlock<RmsNorm, CausalAttention, GatedFeedForward>`; [`DynBlock`] is the one assembled from data.
pub struct TransformerBlock<N, A, F> {
    mixer: Option<Branch<N, A>>,
    feed_forward: Option<Branch<N, F>>,
    pre: PreNorm,
}

/// A block assembled from data.
pub type DynBlock = TransformerBlock<Box<dyn Norm>, Box<dyn SequenceMixer>, Box<dyn FeedForward>>;

impl<N: Norm, A: SequenceMixer, F: FeedForward> TransformerBlock<N, A, F> {
    /// A block of these branches, run in this order.
    pub fn new(mixer: Option<Branch<N, A>>, feed_forward: Option<Branch<N, F>>) -> Self {
        Self { mixer, feed_forward, pre: PreNorm::Own }
    }

    /// Says whether the feed-forward shares the mixer's `pre` norm.
    pub fn with_pre(mut self, pre: PreNorm) -> Self {
        self.pre = pre;
        self
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
}

impl<N: Norm, A: SequenceMixer, F: FeedForward> Layer for TransformerBlock<N, A, F> {
    fn forward(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        let (mut mixed, mut shared) = (None, None);
        if let Some(branch) = &self.mixer {
            let normed = branch.enter(&hidden, context)?;
            let out = branch.part.forward(normed.as_ref().unwrap_or(&hidden), context)?;
            mixed = Some(branch.leave(out, &hidden, Checkpoint::AttnOut, context)?);
            shared = normed.filter(|_| self.pre == PreNorm::Shared);
        }
        let Some(branch) = &self.feed_forward else { return Ok(mixed.unwrap_or(hidden)) };
        let stream = mixed.as_ref().unwrap_or(&hidden);
        let read = match branch.reads {
            Reads::Stream => stream,
            Reads::BlockInput => &hidden,
        };
        let normed = match shared {
            Some(normed) => Some(normed),
            None => branch.enter(read, context)?,
        };
        let out = branch.part.forward(normed.as_ref().unwrap_or(read), &hidden, context)?;
        branch.leave(out, stream, Checkpoint::FfnOut, context)
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
}
