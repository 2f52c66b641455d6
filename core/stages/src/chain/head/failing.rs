//! What goes wrong at the chain's end: what is lost with it, and who is named.

use super::{Head, Waiting};
use crate::fault::{FaultKind, StageFault};
use crate::link::LinkFault;
use std::sync::Weak;

impl Head {
    /// Why a frame could not be sent.
    pub(super) fn unsent(&mut self, fault: LinkFault, waiting: &Waiting) -> StageFault {
        match fault.kind {
            FaultKind::Late => self.late(waiting),
            FaultKind::Closed => match self.who_went_first() {
                // It was said on the way back, or it is stage 0.
                Err(said) => said,
                // Stage 0 is there: it is the last one that is gone.
                Ok(()) => self.broken(fault, self.last()),
            },
            kind => self.fault(kind, 0, &fault.detail),
        }
    }

    /// What a request has in the stages is lost; what all have, where it is of none (0). The fault is named after its step (0
    /// where that is not known).
    pub(super) fn failed(&mut self, fault: StageFault, request: u64, step: u32) -> StageFault {
        let fault = self.pending.name(fault, step);
        for session in self.sessions.iter().filter_map(Weak::upgrade) {
            if request == 0 || session.number == request {
                session.lose(Some(&fault));
            }
        }
        self.pending.forget(request);
        // What was announced may be what was lost.
        self.announced.clear();
        if fault.kind == FaultKind::Closed {
            self.dead.get_or_insert_with(|| fault.clone());
        }
        fault
    }

    /// A link of the chain itself is broken.
    pub(super) fn broken(&mut self, fault: LinkFault, stage: usize) -> StageFault {
        if let Some(dead) = &self.dead {
            return dead.clone();
        }
        let detail = match fault.kind {
            FaultKind::Closed => format!("is gone ({}); open the model again", fault.detail),
            _ => format!("on the link to the chain: {}; prompts must be computed again", fault.detail),
        };
        // A frame that came twice is known itself; of one that is missing or changed it is what is waited for.
        let known = fault.header.filter(|_| fault.kind == FaultKind::Doubled);
        let (request, position, step) =
            known.map_or((0, 0, 0), |header| (header.request, header.position, header.step));
        let fault = StageFault { request, position, ..self.fault(fault.kind, stage, &detail) };
        self.failed(fault, 0, step)
    }

    /// Names the first stage that is not done with the oldest step.
    pub(super) fn late(&mut self, waiting: &Waiting) -> StageFault {
        self.take_back_quietly();
        let step = self.pending.oldest().unwrap_or(self.steps);
        let stage = self.progress.behind(step);
        let seconds = self.options.deadline.as_secs_f64();
        let detail = format!(
            "has not answered for {seconds} s: it is stopped, hangs or is too slow; --stage-deadline gives it more time"
        );
        let late = self.fault(FaultKind::Late, stage, &detail);
        let Some((session, _)) = waiting.session else { return late };
        let late = self.pending.name(StageFault { request: session.number, ..late }, 0);
        session.lose(Some(&late));
        late
    }
}
