//! Messages to the chain: answers of the last stage, and acknowledgments of all stages.

use super::{Arrival, ChainHead};
use crate::chain::pending::{AnswerMatch, PendingStep};
use crate::chain::session::SequenceFault;
use crate::fault::{FaultKind, StageFault};
use crate::frame::payload::PayloadReader;
use crate::frame::{FrameContent, FrameHeader, FrameKind};
use crate::link::BackMessage;
use crate::message::row_fault::RowFault;
use crate::message::times;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How long the chain waits for a report of which stage ended first. All stages of a chain end within milliseconds.
const REPORT_TIME: Duration = Duration::from_secs(2);

impl ChainHead {
    /// Handles the acknowledgments that have arrived.
    pub(super) fn take_back(&mut self) -> Result<(), StageFault> {
        self.take_back_until(Instant::now())
    }

    /// Waits for the report of which stage ended first, after a link of the chain has closed; returns it as an error. Stages
    /// that end because of another one report it, shortly after the link is seen to be closed. `Ok` if there is no report.
    pub(super) fn first_to_end(&mut self) -> Result<(), StageFault> {
        self.take_back_until(Instant::now() + REPORT_TIME)
    }

    fn take_back_until(&mut self, by: Instant) -> Result<(), StageFault> {
        loop {
            match self.link.receive_back(by) {
                Ok(None) => return Ok(()),
                Ok(Some(BackMessage::Acknowledgment(done))) => self.progress.note(done),
                Ok(Some(BackMessage::Gone(fault))) => return Err(self.failed(fault, 0, 0)),
                Err(fault) => return Err(self.broken(fault, 0)),
            }
        }
    }

    /// The next message of the last stage; `None` if nothing arrives until `by`.
    pub(super) fn receive(&mut self, by: Instant) -> Result<Option<Arrival>, StageFault> {
        let (header, content) = match self.link.receive(by) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                // The last stage reports a stage that is gone, or is gone itself.
                self.take_back_quietly();
                return Ok(None);
            }
            Err(fault) => {
                match fault.kind {
                    FaultKind::Corrupted => drop(self.link.acknowledge_last()),
                    FaultKind::Closed => self.first_to_end()?,
                    _ => {}
                }
                let obsolete = |header: FrameHeader| self.epoch_of(header.request) != Some(header.epoch);
                if fault.kind == FaultKind::Duplicate && fault.header.is_some_and(obsolete) {
                    return Ok(Some(Arrival::Nothing));
                }
                return Err(self.broken(fault, self.last()));
            }
        };
        // If the stage is gone, it has reported why before.
        drop(self.link.acknowledge(&header, [times::now(); 2]));
        match header.kind {
            FrameKind::Logits => self.logits(&header, content).map(Some),
            FrameKind::Fault => {
                let fault = StageFault::decode(&content.body)
                    .map_err(|detail| self.fault(FaultKind::Corrupted, self.last(), &detail))?;
                if header.request != 0 && self.epoch_of(header.request) != Some(header.epoch) {
                    return Ok(Some(Arrival::Nothing));
                }
                if fault.kind == FaultKind::Closed {
                    self.take_back()?;
                }
                Err(self.failed(fault, header.request, header.step))
            }
            _ => Ok(Some(Arrival::Round(header, content.body))),
        }
    }

    pub(super) fn take_back_quietly(&mut self) {
        while let Ok(Some(back)) = self.link.receive_back(Instant::now()) {
            match back {
                BackMessage::Acknowledgment(done) => self.progress.note(done),
                BackMessage::Gone(fault) => drop(self.failed(fault, 0, 0)),
            }
        }
    }

    /// The current epoch of a request.
    fn epoch_of(&self, request: u64) -> Option<u32> {
        let mut sessions = self.sessions.iter().filter_map(Weak::upgrade);
        sessions.find(|session| session.number == request).map(|session| session.epoch())
    }

    /// Logits answer the oldest step of the current epoch of their request; those of an earlier epoch are ignored. Faults of
    /// single rows are noted for their sequences.
    fn logits(&mut self, header: &FrameHeader, content: FrameContent) -> Result<Arrival, StageFault> {
        let step = match self.pending.answer(header) {
            AnswerMatch::Nothing => return Ok(Arrival::Nothing),
            AnswerMatch::Later => {
                let detail = "the answer to a step is missing, but a later step was answered";
                let missing = self.fault(FaultKind::Missing, self.last(), detail);
                return Err(self.failed(missing, 0, 0));
            }
            AnswerMatch::Foreign(epoch) => {
                let detail = format!("an answer of epoch {} to a step of epoch {epoch}", header.epoch);
                let stale = self.fault(FaultKind::Stale, self.last(), &detail);
                return Err(self.failed(stale, 0, header.step));
            }
            AnswerMatch::Oldest(step) => step,
        };
        let noted = self.note_faults(&step, &content.body);
        if noted.is_ok() && content.rows.len() == header.rows as usize * header.cols as usize {
            self.answers.arrived(header.step, content.rows);
            return Ok(Arrival::Nothing);
        }
        let size = "the size of the logits differs from their header".to_owned();
        let fault = self.fault(FaultKind::Corrupted, self.last(), &noted.err().unwrap_or(size));
        let PendingStep { request, position, rows, .. } = step;
        Err(self.failed(StageFault { request, position, rows, ..fault }, 0, 0))
    }

    /// Notes rows that are not finite for their sequences.
    fn note_faults(&self, step: &PendingStep, body: &[u8]) -> Result<(), String> {
        let mut from = PayloadReader::new(body);
        let faults = RowFault::decode_all(&mut from)?;
        from.end()?;
        for found in faults {
            let of = step.sequences.get(found.sequence as usize);
            let of = of.ok_or_else(|| {
                format!("a fault names sequence {}, which the step does not have", found.sequence)
            })?;
            let position = usize::try_from(found.position)
                .map_err(|_| "the position of a fault is too large".to_owned())?;
            let (Some(session), true) = (step.session.upgrade(), of.holds(position)) else { continue };
            let fault = self.fault(FaultKind::NotFinite, usize::from(found.stage), &found.detail());
            let (first, rows) = (of.first as u32, of.rows as u32);
            let fault = StageFault { request: step.request, position: first, rows, ..fault };
            session.note_fault(SequenceFault { sequence: of.sequence, position, fault });
        }
        Ok(())
    }
}
