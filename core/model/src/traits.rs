//! The traits of a model's parts; all object-safe.

use crate::Result;
use crate::context::TransformContext;
use crate::rows::Rows;
use crate::state::StateSpec;
use crate::trace::Part;
use std::ops::Range;

/// Tokens to rows.
pub trait TokenEmbedding: Send + Sync {
    /// Rows of the table; ids at or past it are an error.
    fn vocabulary(&self) -> usize;

    /// The step's input to `[T, D]`: ids are looked up, rows that replace them are used unchanged. Rows that layers get
    /// in addition to the stream are put into the context.
    ///
    /// # Errors
    /// An id past the vocabulary; rows of another width.
    fn embed(&self, context: &mut TransformContext) -> Result<Rows>;
}

/// A range of layers; callable with any state set.
pub trait LayerStack: Send + Sync {
    /// Which layers of the model these are.
    fn layers(&self) -> Range<usize>;

    /// The states the layers declared, in the order of their ids.
    fn states(&self) -> &[StateSpec];

    /// Whether a layer sees tokens after a query, so that a sequence must be computed in one step (encoders).
    fn is_bidirectional(&self) -> bool;

    /// Whether a prompt must be computed in one step, though tokens may follow it
    /// ([`FeedForward::takes_whole_prompts`]).
    fn takes_whole_prompts(&self) -> bool {
        false
    }

    /// Whether its layers update two streams in turn ([`crate::StreamEntry`]), so that the rows after a layer may not be
    /// those that the head reads.
    fn has_two_streams(&self) -> bool {
        false
    }

    /// A component whose rows may have other bits beside other rows ([`SequenceMixer::company_dependent`]).
    fn company_dependent(&self) -> Option<&'static str> {
        None
    }

    /// `[T, D]` to `[T, D]`.
    ///
    /// # Errors
    /// Errors of a layer, with its index; a chunk of a sequence if a layer looks ahead or takes whole prompts.
    fn transform(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows>;
}

/// Hidden rows to logits, in two steps (X-LoRA uses only the first).
///
/// `origin` names the row of the step that each row came from, so that the adapters of its sequence act on it.
pub trait OutputHead: Send + Sync {
    /// Columns of the logits.
    fn vocabulary(&self) -> usize;

    /// Final norm, `[T', D]` to `[T', D]`.
    ///
    /// # Errors
    /// A weight of another width.
    fn norm(&self, hidden: Rows, context: &TransformContext) -> Result<Rows>;

    /// Normed rows `[T', D]` to `[T', V]`.
    ///
    /// # Errors
    /// A weight of another width; a number of origins that differs from the number of rows.
    fn logits(&self, normed: &Rows, origin: &[u32], context: &TransformContext) -> Result<Rows>;

    /// Hidden rows `[T, D]` of a whole step to logits of the rows that request them, `[T', V]`.
    ///
    /// # Errors
    /// As [`OutputHead::norm`] and [`OutputHead::logits`].
    fn logits_of_step(&self, hidden: Rows, context: &TransformContext) -> Result<Rows> {
        let wanted = context.layout.logit_rows();
        let all =
            wanted.len() == hidden.rows() && wanted.iter().enumerate().all(|(i, row)| i == *row as usize);
        let rows = if all { hidden } else { context.compute.backend.select(&hidden, &wanted)? };
        context.timed_shared(Part::Head, |context| {
            let normed = self.norm(rows, context)?;
            self.logits(&normed, &wanted, context)
        })
    }
}

/// A norm.
pub trait Norm: Send + Sync {
    /// `[T, D]` to `[T, D]`; heads are normed as rows of their own.
    ///
    /// # Errors
    /// A weight of another width.
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows>;
}

/// Mixes tokens: attention, latent attention, recurrence.
pub trait SequenceMixer: Send + Sync {
    /// Normed rows `[T, D]` to branch output `[T, D]`.
    ///
    /// # Errors
    /// A weight or state that does not fit.
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows>;

    /// Whether a token sees later tokens of its sequence.
    fn is_bidirectional(&self) -> bool {
        false
    }

    /// The name of a component whose rows may have other bits if a step computes other rows with them, or a sequence in
    /// other parts. Guesses of further tokens would change an answer there.
    fn company_dependent(&self) -> Option<&'static str> {
        None
    }
}

/// Further rows that a feed-forward may read, `[T, D]` each; routers use them.
#[derive(Clone, Copy)]
pub struct Raw<'a> {
    /// The residual stream that its branch reads, before the norm.
    pub stream: &'a Rows,
    /// The input of the whole block.
    pub block: &'a Rows,
}

/// Transforms each token.
pub trait FeedForward: Send + Sync {
    /// Normed rows `[T, D]` (and the raw rows, for routers) to `[T, D]`.
    ///
    /// # Errors
    /// A weight that does not fit.
    fn forward(&self, x: &Rows, raw: Raw, context: &mut TransformContext) -> Result<Rows>;

    /// Whether the rows of a prompt depend on each other here, so that it must be computed in one step; tokens that
    /// follow it are separate steps.
    fn takes_whole_prompts(&self) -> bool {
        false
    }

    /// As [`SequenceMixer::company_dependent`].
    fn company_dependent(&self) -> Option<&'static str> {
        None
    }
}

impl<T: Norm + ?Sized> Norm for Box<T> {
    fn forward(&self, x: &Rows, context: &TransformContext) -> Result<Rows> {
        (**self).forward(x, context)
    }
}

impl<T: SequenceMixer + ?Sized> SequenceMixer for Box<T> {
    fn forward(&self, x: &Rows, context: &mut TransformContext) -> Result<Rows> {
        (**self).forward(x, context)
    }

    fn is_bidirectional(&self) -> bool {
        (**self).is_bidirectional()
    }

    fn company_dependent(&self) -> Option<&'static str> {
        (**self).company_dependent()
    }
}

impl<T: FeedForward + ?Sized> FeedForward for Box<T> {
    fn forward(&self, x: &Rows, raw: Raw, context: &mut TransformContext) -> Result<Rows> {
        (**self).forward(x, raw, context)
    }

    fn takes_whole_prompts(&self) -> bool {
        (**self).takes_whole_prompts()
    }

    fn company_dependent(&self) -> Option<&'static str> {
        (**self).company_dependent()
    }
}
