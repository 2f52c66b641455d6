//! [`Run`]: a generation under way, with its sequence.

use crate::error::GenerateError;
use crate::generation::{Generation, Next};
use crate::hooks::Life;
use crate::output::StepOutput;
use crate::request::{Event, Outcome};
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;
use crate::stopping::StopReason;
use menagerie_model::{Part, SpanKey};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A generation under way.
pub(crate) struct Run<'a> {
    pub(crate) ticket: usize,
    pub(crate) generation: Box<Generation<'a>>,
    pub(crate) sequence: Held<'a>,
    pub(crate) life: Life,
}

/// The sequence of a run.
pub(crate) enum Held<'a> {
    /// Somebody else's, who keeps it.
    Lent(&'a mut Sequence),
    /// The run's own.
    Own(Box<Sequence>),
}

impl Deref for Held<'_> {
    type Target = Sequence;

    fn deref(&self) -> &Sequence {
        match self {
            Self::Lent(sequence) => sequence,
            Self::Own(sequence) => sequence,
        }
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Sequence {
        match self {
            Self::Lent(sequence) => sequence,
            Self::Own(sequence) => sequence,
        }
    }
}

impl Run<'_> {
    /// The flag that cancels it.
    pub(crate) fn flag(&self) -> Option<&Arc<AtomicBool>> {
        self.generation.request().cancel.as_ref()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.flag().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// After a step: takes the logits of the last row, if they are there already. Gives why it ended, if it did.
    ///
    /// # Errors
    /// What the generation or the scheduler returns.
    pub(crate) fn go_on(
        &mut self,
        scheduler: &mut Scheduler,
        output: StepOutput,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<StopReason>, GenerateError> {
        let Self { generation, sequence, life, .. } = self;
        let progress = generation.prompt_progress(sequence);
        if let Some((done, total)) = progress {
            sink(Event::Prefill { done, total, cached: sequence.cached() });
        }
        let Some(row) = output.last_logits()? else { return Ok(None) };
        if let (Some(_), Held::Lent(sequence)) = (progress, &mut *sequence) {
            scheduler.answer_begins(sequence, row)?;
        }
        let before = generation.generated();
        let next = {
            let trace = scheduler.hooks().trace.as_ref();
            let begun = trace.map(|trace| trace.begin());
            let next = generation.take(row, sequence, sink)?;
            if let Some((trace, begun)) = trace.zip(begun) {
                trace.end(begun, SpanKey { part: Part::Sampling, layer: None, decodes: true, rows: 1 });
            }
            next
        };
        if generation.generated() > before {
            life.token();
        }
        match next {
            Next::Stop(reason) => Ok(Some(reason)),
            Next::Feed(id) => {
                if scheduler.push(sequence, id)? {
                    let tokens = sequence.tokens.len();
                    let notice = format!(
                        "the sequence reached {tokens} tokens: prefilled again with the long rope factors"
                    );
                    sink(Event::Notice(notice));
                }
                Ok(None)
            }
        }
    }

    /// The end. A sequence of its own is kept for others that begin alike, unless it failed or was cancelled.
    pub(crate) fn end(
        self,
        scheduler: &mut Scheduler,
        how: Result<StopReason, GenerateError>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Outcome, GenerateError> {
        let Self { generation, mut sequence, life, .. } = self;
        // A token that was to be fed is not part of the sequence.
        sequence.forget_pending();
        let useful = how.as_ref().is_ok_and(|reason| *reason != StopReason::Cancelled);
        let result = how.map(|reason| generation.finish(reason, &sequence, sink));
        let given_back = match sequence {
            Held::Own(sequence) if useful => scheduler.retire(*sequence),
            Held::Own(sequence) => scheduler.free(*sequence),
            Held::Lent(_) => Ok(()),
        };
        let result = result.and_then(|outcome| given_back.map(|()| outcome));
        life.answered(&result);
        result
    }
}
