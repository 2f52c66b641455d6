//! [`StageObservers`]: the hooks and the trace of a stage, and the data that they recorded for the chain.

use super::{Fault, PATIENCE, StageWorker, corrupted, execution};
use crate::fault::FaultKind;
use crate::frame::{FrameHeader, FrameKind};
use crate::library::StageLibrary;
use crate::message::gather::{GatherMessage, GatherSubject, piece_of};
use crate::message::hook::HookMessage;
use crate::message::step::StepMessage;
use crate::message::trace;
use menagerie_model::{Hooks, LayerHook, ModelError, Trace};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A hook with a number.
enum KnownHook {
    /// A copy in this process.
    Copy(Arc<dyn LayerHook>),
    /// The hook of the chain.
    Original(Weak<dyn LayerHook>),
}

/// What observes the steps of a stage.
#[derive(Default)]
pub(super) struct StageObservers {
    known: HashMap<u32, KnownHook>,
    /// The hooks of the previous step, and their numbers: the next step mostly has the same.
    current: (Vec<u32>, Hooks),
    /// The trace, with its number.
    trace: Option<(u64, Trace)>,
    /// Whether the current step is traced.
    traces: bool,
}

impl StageObservers {
    /// Registers the hook of a number, unless it is registered already.
    pub(super) fn learn(
        &mut self,
        number: u32,
        payload: &[u8],
        library: &dyn StageLibrary,
    ) -> Result<(), Fault> {
        let HookMessage { removed, recipe } = HookMessage::decode(payload).map_err(corrupted)?;
        removed.iter().for_each(|number| drop(self.known.remove(number)));
        if self.known.contains_key(&number) {
            return Ok(());
        }
        let is_copy = recipe.is_some();
        let hook = library.hook(number, recipe).map_err(|reason| (FaultKind::Refused, reason))?;
        let known = if is_copy { KnownHook::Copy(hook) } else { KnownHook::Original(Arc::downgrade(&hook)) };
        self.known.insert(number, known);
        Ok(())
    }

    /// Releases the hooks of the previous step.
    pub(super) fn release(&mut self) {
        self.current = Default::default();
    }

    /// Selects the hooks and the trace of a step.
    pub(super) fn prepare(&mut self, step: &StepMessage) -> Result<(), Fault> {
        if self.current.0 != step.parts.hooks {
            let hooks = step.parts.hooks.iter().map(|number| self.hook(*number));
            self.current = (step.parts.hooks.clone(), hooks.collect::<Result<_, _>>()?);
        }
        self.traces = step.trace.is_some();
        if let Some(request) = step.trace
            && self.trace.as_ref().is_none_or(|(number, _)| *number != request.number)
        {
            let most = usize::try_from(request.most).unwrap_or(usize::MAX);
            self.trace = Some((request.number, Trace::new(most)));
        }
        Ok(())
    }

    fn hook(&self, number: u32) -> Result<Arc<dyn LayerHook>, Fault> {
        let found = match self.known.get(&number) {
            Some(KnownHook::Copy(hook)) => Some(Arc::clone(hook)),
            Some(KnownHook::Original(hook)) => hook.upgrade(),
            None => None,
        };
        let removed =
            || (FaultKind::Missing, format!("hook {number} was removed while a step with it was computed"));
        found.ok_or_else(removed)
    }

    /// The hooks of the current step.
    pub(super) fn hooks(&self) -> &Hooks {
        &self.current.1
    }

    /// The trace of the current step.
    pub(super) fn trace(&self) -> Option<&Trace> {
        self.trace.as_ref().filter(|_| self.traces).map(|(_, trace)| trace)
    }

    /// Passes the requested data to `piece`, in pieces.
    fn gather(
        &self,
        subject: GatherSubject,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), ModelError>,
    ) -> Result<(), ModelError> {
        match subject {
            GatherSubject::Nothing => Ok(()),
            GatherSubject::Hook(number) => match self.known.get(&number) {
                Some(KnownHook::Copy(hook)) => hook.serializable().map_or(Ok(()), |copy| copy.give(piece)),
                Some(KnownHook::Original(_)) | None => Ok(()),
            },
            GatherSubject::Trace(number) => match &self.trace {
                Some((own, trace)) if *own == number => trace::pieces(trace, piece),
                _ => Ok(()),
            },
        }
    }
}

impl StageWorker {
    /// Sends the data that the chain requests, and returns the request with the number of pieces.
    pub(super) fn gather(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<Vec<u8>, Fault> {
        let mut message = GatherMessage::decode(payload).map_err(corrupted)?;
        let observers = std::mem::take(&mut self.observers);
        let (index, mut count) = (self.parts.index, 0);
        let gathered = observers.gather(message.subject, &mut |piece| {
            count += 1;
            let header = FrameHeader { kind: FrameKind::Piece, ..*header };
            match self.send(header, piece_of(index, piece), Instant::now() + PATIENCE) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let reason = format!("no stage accepted its recorded data for {} s", PATIENCE.as_secs());
                    Err(ModelError::stage(reason))
                }
                Err(fault) => Err(fault.into()),
            }
        });
        self.observers = observers;
        gathered.map_err(execution)?;
        message.pieces.push(count);
        Ok(message.encode())
    }
}
