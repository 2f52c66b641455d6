//! [`Watching`]: hooks and times of a stage, and what they kept for the chain.

use super::{Fault, PATIENCE, StageWorker, computing, corrupted};
use crate::fault::FaultKind;
use crate::frame::{FrameKind, Header};
use crate::gather::{Asked, GatherMessage, piece_of};
use crate::hook_message::HookMessage;
use crate::library::StageLibrary;
use crate::step::StepMessage;
use crate::trace_message;
use menagerie_model::{Hooks, LayerHook, ModelError, Trace};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A hook that the stage knows.
enum Known {
    /// A copy, which is the stage's own.
    Copy(Arc<dyn LayerHook>),
    /// The chain's.
    Shared(Weak<dyn LayerHook>),
}

/// What watches the steps of a stage.
#[derive(Default)]
pub(super) struct Watching {
    known: HashMap<u32, Known>,
    /// The hooks of the step before, and their numbers: the next one mostly has the same.
    current: (Vec<u32>, Hooks),
    /// The trace of this number.
    trace: Option<(u64, Trace)>,
    /// Whether the step under way is noted.
    notes: bool,
}

impl Watching {
    /// Takes a hook that steps will name by this number; one that is known stays what it is.
    pub(super) fn learn(
        &mut self,
        number: u32,
        payload: &[u8],
        library: &dyn StageLibrary,
    ) -> Result<(), Fault> {
        let HookMessage { gone, recipe } = HookMessage::decode(payload).map_err(corrupted)?;
        gone.iter().for_each(|number| drop(self.known.remove(number)));
        if self.known.contains_key(&number) {
            return Ok(());
        }
        let is_copy = recipe.is_some();
        let hook = library.hook(number, recipe).map_err(|reason| (FaultKind::Refused, reason))?;
        let known = if is_copy { Known::Copy(hook) } else { Known::Shared(Arc::downgrade(&hook)) };
        self.known.insert(number, known);
        Ok(())
    }

    /// Lets hooks go that may be nobody's any more.
    pub(super) fn rest(&mut self) {
        self.current = Default::default();
    }

    /// Takes up what watches a step.
    pub(super) fn turn_to(&mut self, step: &StepMessage) -> Result<(), Fault> {
        if self.current.0 != step.parts.hooks {
            let hooks = step.parts.hooks.iter().map(|number| self.hook(*number));
            self.current = (step.parts.hooks.clone(), hooks.collect::<Result<_, _>>()?);
        }
        self.notes = step.trace.is_some();
        if let Some(asked) = step.trace
            && self.trace.as_ref().is_none_or(|(number, _)| *number != asked.number)
        {
            let most = usize::try_from(asked.most).unwrap_or(usize::MAX);
            self.trace = Some((asked.number, Trace::new(most)));
        }
        Ok(())
    }

    fn hook(&self, number: u32) -> Result<Arc<dyn LayerHook>, Fault> {
        let found = match self.known.get(&number) {
            Some(Known::Copy(hook)) => Some(Arc::clone(hook)),
            Some(Known::Shared(hook)) => hook.upgrade(),
            None => None,
        };
        let gone = || {
            (FaultKind::Missing, format!("hook {number} was taken away while a step with it was computed"))
        };
        found.ok_or_else(gone)
    }

    /// The hooks of the step under way.
    pub(super) fn hooks(&self) -> &Hooks {
        &self.current.1
    }

    /// Where its times are noted.
    pub(super) fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref().filter(|_| self.notes).map(|(_, trace)| trace)
    }

    /// What was kept of what is asked for, piece by piece.
    fn give(
        &self,
        asked: Asked,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        match asked {
            Asked::Nothing => Ok(()),
            Asked::Hook(number) => match self.known.get(&number) {
                Some(Known::Copy(hook)) => hook.serializable().map_or(Ok(()), |copy| copy.give(piece)),
                Some(Known::Shared(_)) | None => Ok(()),
            },
            Asked::Trace(number) => match &self.trace {
                Some((own, trace)) if *own == number => trace_message::pieces(trace, piece),
                _ => Ok(()),
            },
        }
    }
}

impl StageWorker {
    /// Gives what the chain asks for, and the question with the number of pieces.
    pub(super) fn gather(&mut self, header: &Header, payload: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut message = GatherMessage::decode(payload).map_err(corrupted)?;
        let watching = std::mem::take(&mut self.watching);
        let (index, mut count) = (self.parts.index, 0);
        let given = watching.give(message.asked, &mut |piece| {
            count += 1;
            let header = Header { kind: FrameKind::Gathered, ..*header };
            match self.send(header, piece_of(index, piece), Instant::now() + PATIENCE) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let reason = format!("nobody took what it kept for {} s", PATIENCE.as_secs());
                    Err(ModelError::Stage(reason.into()))
                }
                Err(fault) => Err(fault.into()),
            }
        });
        self.watching = watching;
        given.map_err(computing)?;
        message.given.push(count);
        Ok(message.encode())
    }
}
