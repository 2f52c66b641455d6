//! The forms of a loaded model: whole, a stage of it, or an encoder. Parts that a stage lacks are absent by type.

use crate::classifier::Classifier;
use crate::context::TransformContext;
use crate::linear::Linear;
use crate::linear_input::LinearInput;
use crate::nextn::{NextnExecutor, NextnHead, NextnOutput};
use crate::pooling;
use crate::rows::Rows;
use crate::trace::Part;
use crate::traits::{LayerStack, Norm, OutputHead, TokenEmbedding};
use crate::{ModelError, Result};
use menagerie_formulas::{HiddenRow, Pooling};

/// Where a stage is in its model; explicit configuration, never inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagePosition {
    /// Embedding and the first layers.
    First,
    /// Layers.
    Middle,
    /// The last layers and the head.
    Last,
    /// Everything.
    Only,
}

/// Numbers of the whole model that every stage has.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelShape {
    /// Blocks of the whole model.
    pub n_layers: usize,
    /// Trained context in tokens, if known.
    pub max_seq_len: Option<usize>,
    /// D: width of the residual stream, in elements.
    pub embedding_length: usize,
    /// Tokens up to which the short LongRoPE divisors apply; absent = one rope regime only.
    pub rope_regime_limit: Option<usize>,
}

/// The common part of all stages: the shape of the model, and layers.
pub struct StageBody {
    /// Numbers of the whole model.
    pub shape: ModelShape,
    /// The layers.
    pub stack: Box<dyn LayerStack>,
}

/// Embedding and the first layers.
pub struct FirstStage {
    /// Shape and layers.
    pub body: StageBody,
    /// The embedding.
    pub embedding: Box<dyn TokenEmbedding>,
}

/// Layers alone. It has no logits:
///
/// ```compile_fail
/// use menagerie_model::{MiddleStage, Rows, TransformContext};
/// fn logits(stage: &MiddleStage, normed: &Rows, context: &TransformContext) {
///     let _ = stage.head.logits(normed, &[0], context);
/// }
/// ```
pub struct MiddleStage {
    /// Shape and layers.
    pub body: StageBody,
}

/// The last layers and the head.
pub struct LastStage {
    /// Shape and layers.
    pub body: StageBody,
    /// The head.
    pub head: Box<dyn OutputHead>,
}

/// Embedding, all layers and head: a language model.
pub struct WholeModel {
    /// Shape and layers.
    pub body: StageBody,
    /// The embedding.
    pub embedding: Box<dyn TokenEmbedding>,
    /// The head.
    pub head: Box<dyn OutputHead>,
    /// The heads that predict further tokens, if they were requested. Their states follow those of the layers.
    pub nextn: Vec<NextnHead>,
}

/// Embedding, all layers and a pooling: an encoder. It keeps no cache between steps: every sequence of a step is whole.
pub struct EmbeddingModel {
    /// Shape and layers.
    pub body: StageBody,
    /// The embedding.
    pub embedding: Box<dyn TokenEmbedding>,
    /// Norm of the hidden rows before they are pooled, where the model has one.
    pub norm: Option<Box<dyn Norm>>,
    /// The pooling, unless the caller requests another one.
    pub pooling: Pooling,
    /// Makes scores of the pooled rows, unless the caller requests another pooling.
    pub classifier: Option<Classifier>,
    /// Linears applied to the pooled rows, in this order, unless the caller requests another pooling.
    pub dense: Vec<Box<dyn Linear>>,
}

/// A model or a part of one, whatever its position.
pub enum Stage {
    /// Embedding and the first layers.
    First(FirstStage),
    /// Layers.
    Middle(MiddleStage),
    /// The last layers and the head.
    Last(LastStage),
    /// Everything.
    Only(WholeModel),
}

/// The result of the last stage in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StepGoal {
    /// Logits of the rows that request them.
    #[default]
    Logits,
    /// All rows after the final norm.
    Normed,
}

impl StepGoal {
    fn of(self, head: &dyn OutputHead, hidden: Rows, context: &TransformContext) -> Result<Rows> {
        match self {
            Self::Logits => head.logits_of_step(hidden, context),
            Self::Normed => head.norm(hidden, context),
        }
    }
}

/// The result of a stage.
#[derive(Debug)]
pub enum StageOutput {
    /// Hidden rows `[T, D]` for the next stage; rows that layers pass on besides them are in the context.
    Hidden(Rows),
    /// The result of the step, from the last stage: logits `[T', V]` of the rows that request them, or all rows
    /// `[T, D]` after the final norm.
    Ended(Rows),
}

impl Stage {
    /// Where it is.
    pub fn position(&self) -> StagePosition {
        match self {
            Self::First(_) => StagePosition::First,
            Self::Middle(_) => StagePosition::Middle,
            Self::Last(_) => StagePosition::Last,
            Self::Only(_) => StagePosition::Only,
        }
    }

    /// What every stage has.
    pub fn body(&self) -> &StageBody {
        match self {
            Self::First(stage) => &stage.body,
            Self::Middle(stage) => &stage.body,
            Self::Last(stage) => &stage.body,
            Self::Only(model) => &model.body,
        }
    }

    /// The embedding, where it has one.
    pub fn embedding(&self) -> Option<&dyn TokenEmbedding> {
        match self {
            Self::First(FirstStage { embedding, .. }) | Self::Only(WholeModel { embedding, .. }) => {
                Some(&**embedding)
            }
            Self::Middle(_) | Self::Last(_) => None,
        }
    }

    /// The head, where it has one.
    pub fn head(&self) -> Option<&dyn OutputHead> {
        match self {
            Self::Last(LastStage { head, .. }) | Self::Only(WholeModel { head, .. }) => Some(&**head),
            Self::First(_) | Self::Middle(_) => None,
        }
    }

    /// One step: `hidden` is the output of the stage before; the first stage has none.
    ///
    /// # Errors
    /// Errors of a part; hidden rows that are missing, or that a stage with an embedding receives.
    pub fn execute(
        &self,
        hidden: Option<Rows>,
        goal: StepGoal,
        context: &mut TransformContext,
    ) -> Result<StageOutput> {
        match (self, hidden) {
            (Self::First(stage), None) => stage.forward(context).map(StageOutput::Hidden),
            (Self::Middle(stage), Some(hidden)) => stage.forward(hidden, context).map(StageOutput::Hidden),
            (Self::Last(stage), Some(hidden)) => stage.forward(hidden, goal, context).map(StageOutput::Ended),
            (Self::Only(model), None) => {
                let hidden = model.hidden(context)?;
                goal.of(&*model.head, hidden, context).map(StageOutput::Ended)
            }
            (Self::Middle(_) | Self::Last(_), None) => Err(ModelError::Unsupported(
                "a stage without an embedding received no hidden rows".to_owned(),
            )),
            (Self::First(_) | Self::Only(_), Some(_)) => Err(ModelError::Unsupported(
                "a stage with an embedding received hidden rows of a previous stage".to_owned(),
            )),
        }
    }
}

impl FirstStage {
    /// The step's input to hidden rows `[T, D]`, for the next stage.
    ///
    /// # Errors
    /// What a part returns.
    pub fn forward(&self, context: &mut TransformContext) -> Result<Rows> {
        let hidden = context.timed(Part::Embedding, |context| self.embedding.embed(context))?;
        self.body.stack.transform(hidden, context)
    }
}

impl WholeModel {
    /// The step's input to hidden rows `[T, D]`, before the head's norm.
    ///
    /// # Errors
    /// What a part returns.
    pub(crate) fn hidden(&self, context: &mut TransformContext) -> Result<Rows> {
        let hidden = context.timed(Part::Embedding, |context| self.embedding.embed(context))?;
        self.body.stack.transform(hidden, context)
    }
}

impl WholeModel {
    /// Fills the states of the heads for further tokens, if there are some and the caller keeps their rows. A failure in
    /// them fails no sequence, because they only guess.
    ///
    /// # Errors
    /// What a part returns.
    pub(crate) fn follow(&self, hidden: &Rows, context: &mut TransformContext) -> Result<()> {
        let (Some(first), Some(kept)) = (self.nextn.first(), context.hidden_rows.take()) else {
            return Ok(());
        };
        let read = context.compute.backend.copy(hidden)?;
        let mut read = match first.hidden {
            HiddenRow::Stream => read,
            HiddenRow::Normed => self.head.norm(read, context)?,
        };
        let (layout, mut ignored) = (context.layout.with_adapters(None), Vec::new());
        let mut own = context.pass(&layout);
        (own.failures, own.trace) = (Some(&mut ignored), None);
        let (heads, width) = (self.nextn.len(), read.cols());
        for (number, head) in self.nextn.iter().enumerate() {
            let before = kept.before.iter().map(|rows| of_head(rows.as_deref(), number, heads, width));
            let before: Vec<Option<&[f32]>> = before.collect::<Result<_>>()?;
            if number + 1 == heads {
                head.fill(&*self.embedding, &read, &before, &mut own)?;
                kept.after.push(read);
                break;
            }
            let next = head.follow(&*self.embedding, &read, &before, &mut own)?;
            kept.after.push(std::mem::replace(&mut read, next));
        }
        Ok(())
    }
}

/// The row that a head reads, of those of all heads.
fn of_head(rows: Option<&[f32]>, head: usize, heads: usize, width: usize) -> Result<Option<&[f32]>> {
    match rows {
        Some(rows) if rows.len() == heads * width => Ok(rows.get(head * width..(head + 1) * width)),
        Some(rows) => Err(ModelError::Shape {
            what: "rows before a step, for the heads for further tokens".to_owned(),
            expected: format!("{heads} rows of {width}"),
            found: format!("{} numbers", rows.len()),
        }),
        None => Ok(None),
    }
}

impl NextnExecutor for WholeModel {
    fn heads(&self) -> usize {
        self.nextn.len()
    }

    fn predict(&self, head: usize, hidden: &Rows, context: &mut TransformContext) -> Result<NextnOutput> {
        match self.nextn.get(head) {
            Some(nextn) => nextn.predict(&*self.embedding, hidden, context),
            None => Err(ModelError::Unsupported(format!(
                "head {head} for further tokens: the model was assembled with {} of them",
                self.nextn.len()
            ))),
        }
    }
}

impl MiddleStage {
    /// Hidden rows `[T, D]` to hidden rows `[T, D]`.
    ///
    /// # Errors
    /// What a layer returns.
    pub fn forward(&self, hidden: Rows, context: &mut TransformContext) -> Result<Rows> {
        self.body.stack.transform(hidden, context)
    }
}

impl LastStage {
    /// Hidden rows `[T, D]` to the result of the step: logits `[T', V]` of the rows that request them, or normed rows
    /// `[T, D]`.
    ///
    /// # Errors
    /// What a part returns.
    pub fn forward(&self, hidden: Rows, goal: StepGoal, context: &mut TransformContext) -> Result<Rows> {
        let hidden = self.body.stack.transform(hidden, context)?;
        goal.of(&*self.head, hidden, context)
    }
}

impl EmbeddingModel {
    /// One vector per sequence of the step, `[N, D]`; with [`Pooling::None`] all rows, `[T, D]`. Without a requested
    /// `pooling`, rows are pooled as the model was trained, and its dense linears and its classifier (scores
    /// `[N, labels]`) follow. They never follow a requested pooling, so their input always has the row origins of the
    /// model's own pooling.
    ///
    /// # Errors
    /// What a part returns.
    pub fn forward(&self, pooling: Option<Pooling>, context: &mut TransformContext) -> Result<Rows> {
        let hidden = context.timed(Part::Embedding, |context| self.embedding.embed(context))?;
        let mut hidden = self.body.stack.transform(hidden, context)?;
        if let Some(norm) = &self.norm {
            hidden = norm.forward(&hidden, context)?;
        }
        if let Some(requested) = pooling {
            return pooling::pool(requested, hidden, context);
        }
        let mut pooled = pooling::pool(self.pooling, hidden, context)?;
        let origins = pooling::origins(self.pooling, context);
        for linear in &self.dense {
            pooled = linear.forward(&LinearInput::selected(&pooled, &origins)?, context)?;
        }
        match &self.classifier {
            Some(classifier) => classifier.forward(pooled, &origins, context),
            None => Ok(pooled),
        }
    }
}
