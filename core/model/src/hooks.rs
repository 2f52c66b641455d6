//! [`Hooks`]: the hooks of a pipeline in their order; the one place that calls them.
//!
//! The calls of a layer, in order: `before_layer` of every hook; the block, with `at` of every hook at its checkpoints
//! and `chosen` if its feed-forward is a mixture; `after_layer` of every hook; `at` of every hook with
//! [`Checkpoint::LayerOut`]. Hooks are called in the order in which they were added, and each receives the rows that
//! the one before it returned. A hook that was added for some layers or phases is called for those only: in a step of
//! several sequences it receives the rows of those whose [`crate::InferenceStep`] matches, and the rows that it returns
//! replace exactly those. A hook that was added for one sequence receives only its rows.
//!
//! After the layers of a step comes `at_head` of every hook, if the executor has the head of the model.

use crate::context::TransformContext;
use crate::hook::{Checkpoint, Effect, HookInput, LayerHook, Phases, StepHead};
use crate::layout::{SequenceLayout, SequenceRows};
use crate::rows::Rows;
use crate::scalings::Scalings;
use crate::sequence_id::SequenceId;
use crate::{ModelError, Result};
use std::ops::Range;
use std::sync::Arc;

/// Hooks, called in the order they were added.
#[derive(Clone, Default)]
pub struct Hooks {
    entries: Vec<HookEntry>,
}

/// No hooks, for contexts without any.
pub(crate) static NO_HOOKS: Hooks = Hooks { entries: Vec::new() };

/// A hook, with its name, layers, phases and effect.
#[derive(Clone)]
struct HookEntry {
    hook: Arc<dyn LayerHook>,
    layers: Range<usize>,
    phases: Phases,
    effect: Effect,
    /// The only sequence for which it is called; absent = all.
    sequence: Option<SequenceId>,
}

/// Which rows of a step a hook receives.
enum HookPart {
    None,
    All,
    /// Some sequences.
    Some(PartialStep),
}

/// The part of a step that belongs to some of its sequences.
struct PartialStep {
    layout: SequenceLayout,
    /// Their rows in the step.
    places: Vec<u32>,
    /// Ids of their tokens, unless rows replace them.
    tokens: Option<Vec<u32>>,
}

/// A place around a layer where rows may be replaced.
#[derive(Clone, Copy)]
enum Side {
    Before,
    After,
}

impl Hooks {
    /// Adds a hook after those that are there.
    pub fn push(&mut self, hook: Arc<dyn LayerHook>) {
        self.add(hook, None);
    }

    /// Adds a hook that receives only the rows of this sequence. Executors in other processes or threads do not know
    /// the sequence: [`crate::Executor::check_lens`] says whether an executor does.
    pub fn push_for(&mut self, hook: Arc<dyn LayerHook>, sequence: SequenceId) {
        self.add(hook, Some(sequence));
    }

    fn add(&mut self, hook: Arc<dyn LayerHook>, sequence: Option<SequenceId>) {
        let (layers, phases, effect) = (hook.layers(), hook.phases(), hook.effect());
        self.entries.push(HookEntry { hook, layers, phases, effect, sequence });
    }

    /// Whether there are no hooks.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The hooks that are called for layers, in order.
    pub fn of_layers(&self) -> impl Iterator<Item = &Arc<dyn LayerHook>> {
        self.entries.iter().filter(|entry| !entry.layers.is_empty()).map(|entry| &entry.hook)
    }

    /// The effects of hooks on the rows, in order; none if all of them only observe. State that was computed with some
    /// hooks is valid for hooks with equal effects.
    pub fn effects(&self) -> Vec<String> {
        let effect = |entry: &HookEntry| match &entry.effect {
            Effect::Observes => None,
            Effect::Replaces(how) => {
                let HookEntry { layers, phases, .. } = entry;
                Some(format!("{} in layers {layers:?}, {phases:?}: {how}", entry.hook.name()))
            }
        };
        self.entries.iter().filter_map(effect).collect()
    }

    /// Whether their effect on a token is the same in a prompt and while generating.
    pub fn is_uniform(&self) -> bool {
        self.entries.iter().all(|entry| entry.phases == Phases::All || entry.effect == Effect::Observes)
    }

    /// Whether none of them tells prompts from generated tokens.
    pub fn are_for_all_phases(&self) -> bool {
        self.entries.iter().all(|entry| entry.phases == Phases::All)
    }

    /// The input rows of the layer of `context`.
    ///
    /// # Errors
    /// Errors of a hook; rows of another shape, rows with NaN or infinite values, rows of a hook that only observes.
    pub fn before(&self, rows: Rows, context: &TransformContext) -> Result<Rows> {
        self.replaced(Side::Before, rows, context)
    }

    /// The output rows of the layer of `context`.
    ///
    /// # Errors
    /// As [`Self::before`].
    pub fn after(&self, rows: Rows, context: &TransformContext) -> Result<Rows> {
        self.replaced(Side::After, rows, context)
    }

    /// Shows the rows at a checkpoint of the layer of `context`.
    ///
    /// # Errors
    /// What a hook returns.
    pub fn at(&self, checkpoint: Checkpoint, rows: &Rows, context: &TransformContext) -> Result<()> {
        for entry in self.of_layer(context.layer) {
            entry.shown(rows, context, &mut |shown| entry.hook.at(checkpoint, shown))?;
        }
        Ok(())
    }

    /// Shows the hooks the input of the gate of a mixture, and the expert of each row.
    ///
    /// # Errors
    /// What a hook returns.
    pub fn chosen(&self, experts: &[u32], input: &Rows, context: &TransformContext) -> Result<()> {
        for entry in self.of_layer(context.layer) {
            match entry.part(context)? {
                HookPart::None => {}
                HookPart::All => entry.hook.chosen(experts, &all(input, context))?,
                HookPart::Some(own) => {
                    let rows = context.compute.backend.select(input, &own.places)?;
                    let of = |row: &u32| experts.get(*row as usize).copied();
                    let experts: Vec<u32> = own.places.iter().filter_map(of).collect();
                    entry.hook.chosen(&experts, &own.shown(&rows, context))?;
                }
            }
        }
        Ok(())
    }

    /// Shows the hooks the weights of adapters of a whole step.
    ///
    /// # Errors
    /// What a hook returns.
    pub fn scalings(&self, scalings: &Scalings, layout: &SequenceLayout) -> Result<()> {
        self.entries.iter().try_for_each(|entry| entry.hook.scalings(scalings, layout))
    }

    /// Shows the hooks the head, after the layers of a step.
    ///
    /// # Errors
    /// What a hook returns.
    pub(crate) fn at_head(&self, head: &dyn StepHead) -> Result<()> {
        self.entries.iter().try_for_each(|entry| entry.hook.at_head(head))
    }

    fn of_layer(&self, layer: usize) -> impl Iterator<Item = &HookEntry> {
        self.entries.iter().filter(move |entry| entry.layers.contains(&layer))
    }

    fn replaced(&self, side: Side, mut rows: Rows, context: &TransformContext) -> Result<Rows> {
        for entry in self.of_layer(context.layer) {
            let mut made = None;
            entry.shown(&rows, context, &mut |shown| {
                let given = match side {
                    Side::Before => entry.hook.before_layer(shown)?,
                    Side::After => entry.hook.after_layer(shown)?,
                };
                if let Some(given) = given {
                    entry.check(&given, shown)?;
                    made = Some(given);
                }
                Ok(())
            })?;
            let Some(made) = made else { continue };
            rows = match entry.part(context)? {
                HookPart::Some(own) => scattered(&rows, &made, &own.places, context)?,
                HookPart::None | HookPart::All => made,
            };
        }
        Ok(rows)
    }
}

impl FromIterator<Arc<dyn LayerHook>> for Hooks {
    fn from_iter<I: IntoIterator<Item = Arc<dyn LayerHook>>>(hooks: I) -> Self {
        let mut all = Self::default();
        hooks.into_iter().for_each(|hook| all.push(hook));
        all
    }
}

impl HookEntry {
    /// Whether it receives the rows of this sequence.
    fn covers(&self, part: &SequenceRows) -> bool {
        self.phases.cover(&part.step) && self.sequence.is_none_or(|own| own == part.sequence)
    }

    /// Which rows of a step it receives.
    fn part(&self, context: &TransformContext) -> Result<HookPart> {
        let sequences = context.layout.sequences();
        let covered = sequences.iter().filter(|part| self.covers(part)).count();
        if covered == sequences.len() {
            return Ok(HookPart::All);
        }
        let part = context.layout.only(|part| self.covers(part))?;
        let Some((layout, places)) = part else { return Ok(HookPart::None) };
        let of = |ids: &[u32]| places.iter().filter_map(|row| ids.get(*row as usize).copied()).collect();
        let tokens = context.input.tokens().map(of);
        Ok(HookPart::Some(PartialStep { layout, places, tokens }))
    }

    /// Calls the hook with its rows, if there are any.
    fn shown(
        &self,
        rows: &Rows,
        context: &TransformContext,
        show: &mut dyn FnMut(&HookInput) -> Result<()>,
    ) -> Result<()> {
        match self.part(context)? {
            HookPart::None => Ok(()),
            HookPart::All => show(&all(rows, context)),
            HookPart::Some(own) => {
                let rows = context.compute.backend.select(rows, &own.places)?;
                show(&own.shown(&rows, context))
            }
        }
    }

    /// Refuses rows that must not replace others.
    fn check(&self, given: &Rows, shown: &HookInput) -> Result<()> {
        let refused = |reason: String| Err(ModelError::Hook { hook: self.hook.name().to_owned(), reason });
        if self.effect == Effect::Observes {
            return refused(
                "returned rows, but its effect is `Observes`: change the effect to `Replaces`, or return no rows"
                    .to_owned(),
            );
        }
        let [wanted, found] = [shown.rows, given].map(|rows| [rows.rows(), rows.cols()]);
        if wanted != found {
            return refused(format!("returned rows of shape {found:?} instead of {wanted:?}"));
        }
        if !shown.compute.backend.reads_in_place() {
            return Ok(());
        }
        let values = shown.compute.backend.read(given)?;
        let is_bad = |value: &f32| value.to_bits() & f32::INFINITY.to_bits() == f32::INFINITY.to_bits();
        if !values.iter().fold(false, |bad, value| bad | is_bad(value)) {
            return Ok(());
        }
        let at = values.iter().position(is_bad).unwrap_or(0);
        let (row, column) = (at / found[1].max(1), at % found[1].max(1));
        let whose = shown.layout.sequence_of(row).map_or(String::new(), |part| {
            format!(
                " (position {} of sequence {})",
                part.first_position + row - part.rows.start,
                part.sequence
            )
        });
        refused(format!(
            "returned {} in column {column} of row {row}{whose}, which is not a finite number",
            values[at]
        ))
    }
}

impl PartialStep {
    fn shown<'a>(&'a self, rows: &'a Rows, context: &TransformContext<'a>) -> HookInput<'a> {
        HookInput { rows, layout: &self.layout, tokens: self.tokens.as_deref(), ..all(rows, context) }
    }
}

/// All rows of a step.
fn all<'a>(rows: &'a Rows, context: &TransformContext<'a>) -> HookInput<'a> {
    let TransformContext { layer, layout, input, compute, .. } = context;
    HookInput { layer: *layer, rows, layout, tokens: input.tokens(), compute }
}

/// `rows` with those at `places` replaced.
fn scattered(rows: &Rows, made: &Rows, places: &[u32], context: &TransformContext) -> Result<Rows> {
    let (backend, cols) = (&context.compute.backend, rows.cols());
    let (old, new) = (backend.read(rows)?, backend.read(made)?);
    backend.written(rows.rows(), cols, &mut |out| {
        out.copy_from_slice(&old);
        for (place, row) in places.iter().zip(new.chunks_exact(cols.max(1))) {
            let start = *place as usize * cols;
            if let Some(out) = out.get_mut(start..start + cols) {
                out.copy_from_slice(row);
            }
        }
        Ok(())
    })
}
