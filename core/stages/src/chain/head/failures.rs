//! Faults at the chain's end of the links: which states are lost, and which stage is named.

use super::{ChainHead, WaitContext};
use crate::fault::{FaultKind, StageFault};
use crate::link::LinkFault;
use std::sync::Weak;

impl ChainHead {
    /// The fault of a frame that could not be sent.
    pub(super) fn unsent(&mut self, fault: LinkFault, wait: &WaitContext) -> StageFault {
        match fault.kind {
            FaultKind::Timeout => self.timeout(wait),
            FaultKind::Closed => match self.first_to_end() {
                // A stage reported it, or it is stage 0.
                Err(fault) => fault,
                // Stage 0 is running: the last stage is gone.
                Ok(()) => self.broken(fault, self.last()),
            },
            kind => self.fault(kind, 0, &fault.detail),
        }
    }

    /// Marks the states of a request as lost, or those of all requests (0). The fault is attributed to its step (0 if that is
    /// unknown).
    pub(super) fn failed(&mut self, fault: StageFault, request: u64, step: u32) -> StageFault {
        let fault = self.pending.attribute(fault, step);
        for session in self.sessions.iter().filter_map(Weak::upgrade) {
            if request == 0 || session.number == request {
                session.lose(Some(&fault));
            }
        }
        self.pending.forget(request);
        // An announcement may have been lost.
        self.announced.clear();
        if fault.kind == FaultKind::Closed {
            self.dead.get_or_insert_with(|| fault.clone());
        }
        fault
    }

    /// The fault of a link of the chain itself.
    pub(super) fn broken(&mut self, fault: LinkFault, stage: usize) -> StageFault {
        if let Some(dead) = &self.dead {
            return dead.clone();
        }
        let detail = match fault.kind {
            FaultKind::Closed if self.restores => format!("is gone ({})", fault.detail),
            FaultKind::Closed => format!("is gone ({}); open the model again", fault.detail),
            _ => format!("on the link to the chain: {}; prompts must be computed again", fault.detail),
        };
        // The header of a duplicate frame is known; a missing or damaged frame is the oldest one without an answer.
        let known = fault.header.filter(|_| fault.kind == FaultKind::Duplicate);
        let (request, position, step) =
            known.map_or((0, 0, 0), |header| (header.request, header.position, header.step));
        let fault = StageFault { request, position, ..self.fault(fault.kind, stage, &detail) };
        self.failed(fault, 0, step)
    }

    /// The fault of the first stage that has not finished the oldest step.
    pub(super) fn timeout(&mut self, wait: &WaitContext) -> StageFault {
        self.take_back_quietly();
        let step = self.pending.oldest().unwrap_or(self.steps);
        let stage = self.progress.behind(step);
        let seconds = self.options.deadline.as_secs_f64();
        let detail = format!(
            "has not answered for {seconds} s: it is stopped, hangs or is too slow; --stage-deadline gives it more time"
        );
        let late = self.fault(FaultKind::Timeout, stage, &detail);
        let Some((session, _)) = wait.session else { return late };
        let late = self.pending.attribute(StageFault { request: session.number, ..late }, 0);
        session.lose(Some(&late));
        self.late = self.restores.then(|| late.clone());
        late
    }
}
