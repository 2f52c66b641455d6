//! [`TransformerBlock`]: two branches on the residual stream.

use crate::context::TransformContext;
use crate::hook::Checkpoint;
use crate::state::StateSpec;
use crate::traits::{FeedForward, Norm, SequenceMixer};
use crate::{Result, ops};
use candle_core::Tensor;

/// What a branch reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// The residual stream as it stands.
    #[default]
    Stream,
    /// The input of the whole block (parallel blocks).
    BlockInput,
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
    fn enter(&self, x: &Tensor, context: &TransformContext) -> Result<Tensor> {
        match &self.pre {
            Some(norm) => norm.forward(x, context.compute),
            None => Ok(x.clone()),
        }
    }

    fn leave(
        &self,
        mut branch: Tensor,
        stream: &Tensor,
        checkpoint: Checkpoint,
        context: &TransformContext,
    ) -> Result<Tensor> {
        if let Some(norm) = &self.post {
            branch = norm.forward(&branch, context.compute)?;
        }
        if context.is_watched() {
            context.checkpoint(checkpoint, &branch)?;
            // A hook may have kept the tensor, which the sum below would change.
            branch = ops::copy(&branch)?;
        }
        let sum = ops::scale_and_add(branch, self.scale, stream, context.compute)?;
        match &self.after {
            Some(norm) => norm.forward(&sum, context.compute),
            None => Ok(sum),
        }
    }
}

/// A mixer branch and a feed-forward branch; a block may lack either.
pub struct TransformerBlock<N, A, F> {
    mixer: Option<Branch<N, A>>,
    feed_forward: Option<Branch<N, F>>,
    shares_pre: bool,
}

/// A block assembled from data.
pub type DynBlock = TransformerBlock<Box<dyn Norm>, Box<dyn SequenceMixer>, Box<dyn FeedForward>>;

impl<N: Norm, A: SequenceMixer, F: FeedForward> TransformerBlock<N, A, F> {
    /// A block of these branches, run in this order.
    pub fn new(mixer: Option<Branch<N, A>>, feed_forward: Option<Branch<N, F>>) -> Self {
        Self { mixer, feed_forward, shares_pre: false }
    }

    /// The feed-forward reads what the mixer reads, through the mixer's `pre` norm, which is computed once.
    pub fn sharing_pre(mut self) -> Self {
        self.shares_pre = true;
        self
    }
}

/// A layer of a stack.
pub trait Layer: Send + Sync {
    /// What it keeps between steps, in the order of the ids it was built with.
    fn states(&self) -> Vec<StateSpec>;

    /// `[T, D]` to `[T, D]`.
    ///
    /// # Errors
    /// What a part returns.
    fn forward(&self, hidden: Tensor, context: &mut TransformContext) -> Result<Tensor>;
}

impl<N: Norm, A: SequenceMixer, F: FeedForward> Layer for TransformerBlock<N, A, F> {
    fn states(&self) -> Vec<StateSpec> {
        let mixer = self.mixer.iter().flat_map(|branch| branch.part.states());
        mixer.chain(self.feed_forward.iter().flat_map(|branch| branch.part.states())).collect()
    }

    fn forward(&self, hidden: Tensor, context: &mut TransformContext) -> Result<Tensor> {
        let block_input = hidden;
        let mut stream = block_input.clone();
        let mut shared = None;
        if let Some(branch) = &self.mixer {
            let normed = branch.enter(&block_input, context)?;
            let mixed = branch.part.forward(&normed, context)?;
            stream = branch.leave(mixed, &stream, Checkpoint::AttnOut, context)?;
            shared = self.shares_pre.then_some(normed);
        }
        if let Some(branch) = &self.feed_forward {
            let normed = match (shared, branch.reads) {
                (Some(normed), _) => normed,
                (None, Reads::Stream) => branch.enter(&stream, context)?,
                (None, Reads::BlockInput) => branch.enter(&block_input, context)?,
            };
            let transformed = branch.part.forward(&normed, &block_input, context)?;
            stream = branch.leave(transformed, &stream, Checkpoint::FfnOut, context)?;
        }
        Ok(stream)
    }
}

impl<L: Layer + ?Sized> Layer for Box<L> {
    fn states(&self) -> Vec<StateSpec> {
        (**self).states()
    }

    fn forward(&self, hidden: Tensor, context: &mut TransformContext) -> Result<Tensor> {
        (**self).forward(hidden, context)
    }
}
