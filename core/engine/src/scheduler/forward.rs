//! The forward pass of a planned step: its rows, states, adapters and hooks through the layers.

use super::{PlannedRows, Scheduler};
use crate::error::GenerateError;
use crate::layers::through_layers;
use crate::output::StepRows;
use crate::sequence::{HiddenTail, Sequence};
use menagerie_model::{
    AdapterSet, Cancellation, HiddenRows, InferenceStep, ModelError, Rows, SequenceFailure, SequenceLayout,
    SequenceRows, StepInput, TransformContext,
};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The output of a forward pass.
pub(crate) struct ForwardOutput {
    pub(crate) rows: StepRows,
    /// Sequences whose rows are unusable, by their index in the plan.
    pub(crate) failures: Vec<SequenceFailure>,
    /// For each planned sequence the newest rows of the model, if it has a head for further tokens.
    pub(crate) hidden: Vec<HiddenTail>,
}

impl Scheduler {
    /// Runs the planned rows through the model. Appends to the states; the lengths do not change before the commit.
    /// `cancel` has a flag for each sequence; those of the planned ones together cancel the forward pass.
    pub(crate) fn forward(
        &mut self,
        plan: &[PlannedRows],
        sequences: &[&mut Sequence],
        cancel: &[Option<&AtomicBool>],
    ) -> Result<ForwardOutput, GenerateError> {
        let mut failures = Vec::new();
        if plan.is_empty() {
            return Ok(ForwardOutput { rows: StepRows::none(), failures, hidden: Vec::new() });
        }
        let sets =
            AdapterSets::of(plan.iter().filter_map(|planned| sequences[planned.index].adapters.as_ref()));
        let part = |planned: &PlannedRows| {
            let sequence = &sequences[planned.index];
            SequenceRows {
                sequence: sequence.id,
                rows: planned.rows.clone(),
                first_position: sequence.computed,
                step: planned.step,
                regime: sequence.regime,
                logits: planned.logits.clone(),
                adapters: sequence.adapters.as_ref().and_then(|set| sets.index(set)),
            }
        };
        let layout = SequenceLayout::new(plan.iter().map(part).collect())?;
        let fed = |planned: &PlannedRows| {
            let sequence = &sequences[planned.index];
            let guesses = sequence.draft.proposed().iter().map(|guess| guess.id);
            sequence.tokens[sequence.computed..].iter().copied().chain(guesses).take(planned.rows.len())
        };
        let flags = plan.iter().map(|planned| cancel.get(planned.index).copied().flatten());
        let flags: Vec<&AtomicBool> = flags.collect::<Option<_>>().unwrap_or_default();
        let tokens: Vec<u32> = plan.iter().flat_map(fed).collect();
        let mut kept = self.rows_before(plan, sequences);
        let Self { engine, hooks, pool, .. } = self;
        let mut context = TransformContext::new(&engine.compute, &layout, StepInput::Tokens(&tokens), pool);
        context.adapters = &sets.0;
        context.hooks = &hooks.layers;
        context.trace = hooks.trace.as_deref();
        context.cancelled = Cancellation::by_all(&flags);
        context.failures = Some(&mut failures);
        context.hidden_rows = kept.as_mut();
        let rows = through_layers(context, engine.guard.as_ref(), |context| {
            let logits = engine.model.execute(context)?;
            expect_width(&logits, engine.vocabulary())?;
            Ok(logits)
        })?;
        let after = kept.and_then(|kept| kept.after);
        let hidden = after.map(|after| self.tails(plan, sequences, &after)).transpose()?;
        Ok(ForwardOutput { rows, failures, hidden: hidden.unwrap_or_default() })
    }

    /// For a head for further tokens the row of the model before the first row of each sequence. None at the start of a
    /// sequence, and after a state that comes from elsewhere.
    fn rows_before(&self, plan: &[PlannedRows], sequences: &[&mut Sequence]) -> Option<HiddenRows> {
        self.engine.model.nextn()?;
        let row = |planned: &PlannedRows| {
            let sequence = &sequences[planned.index];
            sequence.hidden.before(sequence.computed).map(<[f32]>::to_vec)
        };
        Some(HiddenRows { before: plan.iter().map(row).collect(), after: None })
    }

    /// The rows of a step that the next one may need: the last of a prompt, all of a sequence that decodes.
    fn tails(
        &self,
        plan: &[PlannedRows],
        sequences: &[&mut Sequence],
        after: &Rows,
    ) -> Result<Vec<HiddenTail>, ModelError> {
        let (values, width) = (self.engine.compute.backend.read(after)?, after.cols());
        let tail = |planned: &PlannedRows| {
            let (rows, computed) = (&planned.rows, sequences[planned.index].computed);
            let start = match planned.step {
                InferenceStep::Decode { .. } => rows.start,
                InferenceStep::Prefill { .. } => rows.end.saturating_sub(1),
            };
            let values = values.get(start * width..rows.end * width).unwrap_or_default();
            HiddenTail::new(computed + start - rows.start, width, values.to_vec())
        };
        Ok(plan.iter().map(tail).collect())
    }
}

/// Checks that the logits have the width of the vocabulary.
fn expect_width(logits: &Rows, vocabulary: usize) -> Result<(), ModelError> {
    if logits.rows() == 0 || logits.cols() == vocabulary {
        return Ok(());
    }
    Err(ModelError::Shape {
        what: "logits of a step".to_owned(),
        expected: format!("rows of {vocabulary}"),
        found: format!("rows of {}", logits.cols()),
    })
}

/// The adapter sets of a step, each once.
struct AdapterSets(Vec<Arc<AdapterSet>>);

impl AdapterSets {
    fn of<'a>(sets: impl Iterator<Item = &'a Arc<AdapterSet>>) -> Self {
        let mut step = Self(Vec::new());
        for set in sets {
            if step.index(set).is_none() {
                step.0.push(Arc::clone(set));
            }
        }
        step
    }

    fn index(&self, set: &Arc<AdapterSet>) -> Option<usize> {
        self.0.iter().position(|known| Arc::ptr_eq(known, set))
    }
}
