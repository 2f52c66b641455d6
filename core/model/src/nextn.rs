//! [`NextnHead`]: a head that predicts the token after the next one (multi-token prediction).

use crate::block::Layer;
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::rows::Rows;
use crate::traits::{Norm, OutputHead, TokenEmbedding};
use crate::{ModelError, Result};
use menagerie_formulas::{HiddenRow, JoinOrder};

/// A head that predicts the token after the next one (DeepSeek-AI, 2024, arXiv 2412.19437, section 2.2).
///
/// `x = projection(join(embedding_norm(e), hidden_norm(h)))`, where `e` is the embedding of the token at a position and
/// `h` the row of the model at the position before; then its block over `x`, a norm and the logits of the next token.
/// Its block keeps its own states at the positions of the tokens, beside those of the model.
pub struct NextnHead {
    /// The number of its block.
    pub layer: usize,
    /// Its own token embedding; absent = the model's.
    pub embedding: Option<Box<dyn TokenEmbedding>>,
    /// Norm on the embedded token.
    pub embedding_norm: Option<Box<dyn Norm>>,
    /// Norm on the row of the model.
    pub hidden_norm: Option<Box<dyn Norm>>,
    /// The order of the two inputs of the projection.
    pub order: JoinOrder,
    /// `[2 * D]` to `[D]`.
    pub projection: Box<dyn Linear>,
    /// Its block.
    pub block: Box<dyn Layer>,
    /// The row of the model that it reads.
    pub hidden: HiddenRow,
    /// Its own row that takes the place of the model's when it predicts another token.
    pub repeats: HiddenRow,
    /// Norm and logits.
    pub head: Box<dyn OutputHead>,
}

/// What a head for further tokens predicts in a step.
#[derive(Debug)]
pub struct NextnOutput {
    /// Logits `[T', V]` of the rows that request them: of the token after that of the row.
    pub logits: Rows,
    /// The rows `[T, D]` that take the place of the model's when the head predicts another token.
    pub hidden: Rows,
}

/// An executor with a head for further tokens.
pub trait NextnExecutor: Send + Sync {
    /// The number of heads, at least one. Each of several heads predicts the token after that of the head before it, from
    /// the rows of that head.
    fn heads(&self) -> usize;

    /// Runs one of the heads alone. `hidden` has for each row of the step the row before it, `[T, D]`: of the model, or of
    /// the head before.
    ///
    /// Appends to the states of the head, as [`crate::Executor::execute`] does to all states.
    ///
    /// # Errors
    /// What a part returns; a number of rows that differs from the step's; there is no such head.
    fn predict(&self, head: usize, hidden: &Rows, context: &mut TransformContext) -> Result<NextnOutput>;
}

impl NextnHead {
    /// Logits of the rows that request them, from the tokens of the step and the rows of the model before them.
    ///
    /// # Errors
    /// As [`NextnExecutor::predict`].
    pub(crate) fn predict(
        &self,
        embedding: &dyn TokenEmbedding,
        hidden: &Rows,
        context: &mut TransformContext,
    ) -> Result<NextnOutput> {
        context.states.prepare(context.layout)?;
        let out = self.rows(embedding, hidden, context)?;
        let backend = &context.compute.backend;
        match self.repeats {
            HiddenRow::Stream => {
                let logits = self.head.logits_of_step(backend.copy(&out)?, context)?;
                Ok(NextnOutput { logits, hidden: out })
            }
            HiddenRow::Normed => {
                let hidden = self.head.norm(out, context)?;
                let wanted = context.layout.logit_rows();
                let logits = self.head.logits(&backend.select(&hidden, &wanted)?, &wanted, context)?;
                Ok(NextnOutput { logits, hidden })
            }
        }
    }

    /// Fills the states of the head for the rows of a step. `hidden` are the rows that it reads, `before` for each sequence
    /// the row before its first one.
    ///
    /// # Errors
    /// As [`NextnExecutor::predict`].
    pub(crate) fn fill(
        &self,
        embedding: &dyn TokenEmbedding,
        hidden: &Rows,
        before: &[Option<&[f32]>],
        context: &mut TransformContext,
    ) -> Result<()> {
        let joined = self.joined_of_step(embedding, hidden, before, context)?;
        self.block.fill(joined, context).map_err(|error| error.in_layer(self.layer))
    }

    /// As [`Self::fill`], and returns the rows that the next head reads.
    ///
    /// # Errors
    /// As [`NextnExecutor::predict`].
    pub(crate) fn follow(
        &self,
        embedding: &dyn TokenEmbedding,
        hidden: &Rows,
        before: &[Option<&[f32]>],
        context: &mut TransformContext,
    ) -> Result<Rows> {
        let joined = self.joined_of_step(embedding, hidden, before, context)?;
        let out = self.block.forward(joined, context).map_err(|error| error.in_layer(self.layer))?;
        match self.repeats {
            HiddenRow::Stream => Ok(out),
            HiddenRow::Normed => self.head.norm(out, context),
        }
    }

    /// The output of the block, `[T, D]`.
    fn rows(
        &self,
        embedding: &dyn TokenEmbedding,
        hidden: &Rows,
        context: &mut TransformContext,
    ) -> Result<Rows> {
        let joined = self.joined(embedding, hidden, context)?;
        self.block.forward(joined, context).map_err(|error| error.in_layer(self.layer))
    }

    /// The input of the block for the rows of a step, each with the row before it.
    fn joined_of_step(
        &self,
        embedding: &dyn TokenEmbedding,
        hidden: &Rows,
        before: &[Option<&[f32]>],
        context: &mut TransformContext,
    ) -> Result<Rows> {
        let backend = &context.compute.backend;
        let (width, sequences) = (hidden.cols(), context.layout.sequences());
        let fits = |row: &Option<&[f32]>| row.is_none_or(|row| row.len() == width);
        if before.len() != sequences.len() || !before.iter().all(fits) {
            return Err(ModelError::Shape {
                what: "rows before a step, for the head for further tokens".to_owned(),
                expected: format!("{} rows of {width}", sequences.len()),
                found: format!("{} rows", before.len()),
            });
        }
        let values = backend.read(hidden)?;
        let (mut shifted, mut known) = (Vec::with_capacity(values.len()), vec![1.0; hidden.rows()]);
        for (part, first) in sequences.iter().zip(before) {
            match first {
                Some(row) => shifted.extend_from_slice(row),
                None => {
                    shifted.resize(shifted.len() + width, 0.0);
                    known.iter_mut().skip(part.rows.start).take(1).for_each(|factor| *factor = 0.0);
                }
            }
            let rest = part.rows.start * width..part.rows.end.saturating_sub(1) * width;
            shifted.extend_from_slice(values.get(rest).unwrap_or_default());
        }
        let shifted = backend.upload(shifted, width)?;
        let mut joined = self.joined(embedding, &shifted, context)?;
        if known.contains(&0.0) {
            joined = backend.scale_rows(joined, &known)?;
        }
        Ok(joined)
    }

    /// The input of the block, `[T, D]`.
    fn joined(
        &self,
        embedding: &dyn TokenEmbedding,
        hidden: &Rows,
        context: &mut TransformContext,
    ) -> Result<Rows> {
        context.layer = self.layer;
        let embedded = self.embedding.as_deref().unwrap_or(embedding).embed(context)?;
        hidden.expect_shape(embedded.rows(), embedded.cols(), "rows for the head for further tokens")?;
        let embedded = match &self.embedding_norm {
            Some(norm) => norm.forward(&embedded, context)?,
            None => embedded,
        };
        let normed = self.hidden_norm.as_ref().map(|norm| norm.forward(hidden, context)).transpose()?;
        let hidden = normed.as_ref().unwrap_or(hidden);
        let joined = match self.order {
            JoinOrder::EmbeddingFirst => context.compute.backend.join([&embedded, hidden])?,
            JoinOrder::HiddenFirst => context.compute.backend.join([hidden, &embedded])?,
        };
        self.projection.forward(&LinearInput::new(&joined), context)
    }
}
