//! The forward pass of a planned step: its rows, states, adapters and hooks through the layers.

use super::{PlannedRows, Scheduler};
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::layers::check_weights;
use crate::output::StepRows;
use crate::sequence::{HiddenTail, Sequence};
use menagerie_model::{
    AdapterSet, BegunStep, Cancellation, HiddenRows, Hooks, InferenceStep, ModelError, Part, Rows,
    SequenceFailure, SequenceLayout, SequenceRows, SpanKey, StepEnding, StepInFlight, StepInput,
    TransformContext,
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

/// A forward pass that was begun.
pub(crate) enum BegunForward {
    /// It has ended.
    Ended(ForwardOutput),
    /// It is being computed; the key of its span in the trace.
    InFlight(Box<dyn StepInFlight>, SpanKey),
}

impl Scheduler {
    /// Begins to run the planned rows through the model. Appends to the states; the lengths do not change before the
    /// commit. `cancel` has a flag for each sequence; those of the planned ones together cancel the forward pass.
    pub(crate) fn begin_forward(
        &mut self,
        plan: &[PlannedRows],
        sequences: &[&mut Sequence],
        cancel: &[Option<&AtomicBool>],
    ) -> Result<BegunForward, GenerateError> {
        let mut failures = Vec::new();
        if plan.is_empty() {
            let rows = StepRows::none();
            return Ok(BegunForward::Ended(ForwardOutput { rows, failures, hidden: Vec::new() }));
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
        let flags = flags_of(plan, cancel);
        let tokens: Vec<u32> = plan.iter().flat_map(fed).collect();
        let mut kept = self.rows_before(plan, sequences);
        let lenses = self.hooks_with_lenses(plan, sequences);
        let Self { engine, hooks, pool, .. } = self;
        let mut context = TransformContext::new(&engine.compute, &layout, StepInput::Tokens(&tokens), pool);
        context.adapters = &sets.0;
        context.hooks = lenses.as_ref().unwrap_or(&hooks.layers);
        context.trace = hooks.trace.as_deref();
        context.cancelled = Cancellation::by_all(&flags);
        context.failures = Some(&mut failures);
        context.hidden_rows = kept.as_mut();
        let (rows, parts) = (layout.rows(), plan.len());
        let _span = tracing::debug_span!("step", rows, sequences = parts).entered();
        let begun_at = context.trace.map(|trace| (trace, trace.begin()));
        let begun = engine.model.begin(&mut context);
        check_weights(engine.guard.as_ref())?;
        let key = context.span_of(Part::Step);
        let logits = match begun? {
            BegunStep::InFlight(step) => return Ok(BegunForward::InFlight(step, key)),
            BegunStep::Complete(logits) => logits,
        };
        if let Some((trace, begun_at)) = begun_at {
            trace.end(begun_at, key);
        }
        let rows = step_rows(logits, engine)?;
        let after = kept.map(|kept| kept.after).unwrap_or_default();
        let hidden = if after.is_empty() { Vec::new() } else { self.tails(plan, sequences, &after)? };
        Ok(BegunForward::Ended(ForwardOutput { rows, failures, hidden }))
    }

    /// Waits for a forward pass of the planned rows. The trace has the time of the wait, since the passes in flight overlap.
    pub(crate) fn finish_forward(
        &self,
        (step, key): (Box<dyn StepInFlight>, SpanKey),
        plan: &[PlannedRows],
        cancel: &[Option<&AtomicBool>],
    ) -> Result<ForwardOutput, GenerateError> {
        let Self { engine, hooks, pool, .. } = self;
        let (flags, mut failures) = (flags_of(plan, cancel), Vec::new());
        let begun_at = hooks.trace.as_deref().map(|trace| (trace, trace.begin()));
        let mut ending = StepEnding {
            compute: &engine.compute,
            states: pool,
            cancelled: Cancellation::by_all(&flags),
            failures: &mut failures,
        };
        let logits = step.finish(&mut ending)?;
        if let Some((trace, begun_at)) = begun_at {
            trace.end(begun_at, key);
        }
        let rows = step_rows(logits, engine)?;
        Ok(ForwardOutput { rows, failures, hidden: Vec::new() })
    }

    /// The hooks of a step, if a sequence of it has a lens.
    fn hooks_with_lenses(&self, plan: &[PlannedRows], sequences: &[&mut Sequence]) -> Option<Hooks> {
        let mut hooks = None;
        for sequence in plan.iter().map(|planned| &sequences[planned.index]) {
            if let Some(lens) = &sequence.lens {
                let hooks = hooks.get_or_insert_with(|| self.hooks.layers.clone());
                hooks.push_for(Arc::clone(lens) as _, sequence.id);
            }
        }
        hooks
    }

    /// The rows that heads for further tokens read before the first row of each sequence. `None` at the start of a sequence,
    /// and after a state that was loaded.
    fn rows_before(&self, plan: &[PlannedRows], sequences: &[&mut Sequence]) -> Option<HiddenRows> {
        self.engine.model.nextn()?;
        let row = |planned: &PlannedRows| {
            let sequence = &sequences[planned.index];
            sequence.hidden.before(sequence.computed).map(<[f32]>::to_vec)
        };
        Some(HiddenRows { before: plan.iter().map(row).collect(), after: Vec::new() })
    }

    /// The rows of a step that the next one may need: the last of a prompt; all of a sequence that decodes, and the one
    /// before them, because a step with a wrong guess may be undone.
    fn tails(
        &self,
        plan: &[PlannedRows],
        sequences: &[&mut Sequence],
        after: &[Rows],
    ) -> Result<Vec<HiddenTail>, ModelError> {
        let backend = &self.engine.compute.backend;
        let width = after.iter().map(Rows::cols).sum();
        let mut values = Vec::new();
        let read = after.iter().map(|rows| backend.read(rows)).collect::<Result<Vec<_>, _>>()?;
        for row in 0..after.first().map_or(0, Rows::rows) {
            for (rows, of_head) in read.iter().zip(after) {
                let own = row * of_head.cols()..(row + 1) * of_head.cols();
                values.extend_from_slice(rows.get(own).unwrap_or_default());
            }
        }
        let tail = |planned: &PlannedRows| {
            let (rows, computed) = (&planned.rows, sequences[planned.index].computed);
            let start = match planned.step {
                InferenceStep::Decode { .. } => rows.start,
                InferenceStep::Prefill { .. } => rows.end.saturating_sub(1),
            };
            let values = values.get(start * width..rows.end * width).unwrap_or_default();
            let first = computed + start - rows.start;
            match sequences[planned.index].hidden.before(first) {
                Some(before) => HiddenTail::new(first - 1, width, [before, values].concat()),
                None => HiddenTail::new(first, width, values.to_vec()),
            }
        };
        Ok(plan.iter().map(tail).collect())
    }
}

/// The flags of the planned sequences; none if one of them has none.
fn flags_of<'f>(plan: &[PlannedRows], cancel: &[Option<&'f AtomicBool>]) -> Vec<&'f AtomicBool> {
    let flags = plan.iter().map(|planned| cancel.get(planned.index).copied().flatten());
    flags.collect::<Option<_>>().unwrap_or_default()
}

/// The logits of a step, if they have the width of the vocabulary.
fn step_rows(logits: Rows, engine: &Engine) -> Result<StepRows, ModelError> {
    expect_width(&logits, engine.vocabulary())?;
    StepRows::new(logits, &engine.compute)
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
