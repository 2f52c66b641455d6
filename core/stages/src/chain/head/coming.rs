//! What comes to the chain: answers of the last stage, and what all are done with.

use super::{Came, Head};
use crate::bytes::Reader;
use crate::chain::pending::{Answers, Pending};
use crate::fault::{FaultKind, StageFault};
use crate::frame::{Content, FrameKind, Header};
use crate::link::Back;
use crate::row_fault::RowFault;
use crate::session::SequenceFault;
use crate::times;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// How long is waited for word of which stage went first: all of a chain end within milliseconds of one another.
const SAID: Duration = Duration::from_secs(2);

impl Head {
    /// What stages say they are done with.
    pub(super) fn take_back(&mut self) -> Result<(), StageFault> {
        self.take_back_until(Instant::now())
    }

    /// An error that names the stage which went first, where a link of the chain has ended. Those that go because of another say
    /// which on the way back, where it arrives a little later than the end of a link is seen; if nobody says anything, none.
    pub(super) fn who_went_first(&mut self) -> Result<(), StageFault> {
        self.take_back_until(Instant::now() + SAID)
    }

    fn take_back_until(&mut self, by: Instant) -> Result<(), StageFault> {
        loop {
            match self.link.receive_back(by) {
                Ok(None) => return Ok(()),
                Ok(Some(Back::Done(done))) => self.progress.note(done),
                Ok(Some(Back::Gone(fault))) => return Err(self.failed(fault, 0, 0)),
                Err(fault) => return Err(self.broken(fault, 0)),
            }
        }
    }

    /// The next frame of the last stage; none if nothing comes until `by`.
    pub(super) fn came(&mut self, by: Instant) -> Result<Option<Came>, StageFault> {
        let (header, content) = match self.link.receive(by) {
            Ok(Some(frame)) => frame,
            Ok(None) => {
                // A stage that is gone is no news here: the last one says it, or is gone itself.
                self.take_back_quietly();
                return Ok(None);
            }
            Err(fault) => {
                match fault.kind {
                    FaultKind::Corrupted => drop(self.link.done_with_last()),
                    FaultKind::Closed => self.who_went_first()?,
                    _ => {}
                }
                let over = |header: Header| self.epoch_of(header.request) != Some(header.epoch);
                if fault.kind == FaultKind::Doubled && fault.header.is_some_and(over) {
                    return Ok(Some(Came::Nothing));
                }
                return Err(self.broken(fault, self.last()));
            }
        };
        // A stage that is gone has said why before: what it said is taken first.
        drop(self.link.done(&header, [times::now(); 2]));
        match header.kind {
            FrameKind::Logits => self.logits(&header, content).map(Some),
            FrameKind::Fault => {
                let fault = StageFault::decode(&content.told)
                    .map_err(|detail| self.fault(FaultKind::Corrupted, self.last(), &detail))?;
                if header.request != 0 && self.epoch_of(header.request) != Some(header.epoch) {
                    return Ok(Some(Came::Nothing));
                }
                if fault.kind == FaultKind::Closed {
                    self.take_back()?;
                }
                Err(self.failed(fault, header.request, header.step))
            }
            _ => Ok(Some(Came::Round(header, content.told))),
        }
    }

    pub(super) fn take_back_quietly(&mut self) {
        while let Ok(Some(back)) = self.link.receive_back(Instant::now()) {
            match back {
                Back::Done(done) => self.progress.note(done),
                Back::Gone(fault) => drop(self.failed(fault, 0, 0)),
            }
        }
    }

    /// The epoch of a request that goes on.
    fn epoch_of(&self, request: u64) -> Option<u32> {
        let mut sessions = self.sessions.iter().filter_map(Weak::upgrade);
        sessions.find(|session| session.number == request).map(|session| session.epoch())
    }

    /// Logits answer the oldest step of their request's epoch; those of an epoch that is over answer nothing. What is wrong with
    /// single rows is noted for their sequences.
    fn logits(&mut self, header: &Header, content: Content) -> Result<Came, StageFault> {
        let step = match self.pending.answered(header) {
            Answers::Nothing => return Ok(Came::Nothing),
            Answers::Later => {
                let detail = "the answer to a step did not come, and that to a later one did";
                let missing = self.fault(FaultKind::Missing, self.last(), detail);
                return Err(self.failed(missing, 0, 0));
            }
            Answers::Foreign(epoch) => {
                let detail = format!("an answer of epoch {} to a step of epoch {epoch}", header.epoch);
                let stale = self.fault(FaultKind::Stale, self.last(), &detail);
                return Err(self.failed(stale, 0, header.step));
            }
            Answers::Oldest(step) => step,
        };
        let noted = self.note_rows(&step, &content.told);
        if noted.is_ok() && content.rows.len() == header.rows as usize * header.cols as usize {
            return Ok(Came::Logits(header.step, content.rows));
        }
        let size = "logits of another size than their header says".to_owned();
        let fault = self.fault(FaultKind::Corrupted, self.last(), &noted.err().unwrap_or(size));
        let Pending { request, position, rows, .. } = step;
        Err(self.failed(StageFault { request, position, rows, ..fault }, 0, 0))
    }

    /// Notes rows that are no numbers for the sequences that have them.
    fn note_rows(&self, step: &Pending, told: &[u8]) -> Result<(), String> {
        let mut from = Reader::new(told);
        let faults = RowFault::decode_all(&mut from)?;
        from.end()?;
        for found in faults {
            let of = step.sequences.get(found.sequence as usize);
            let of = of.ok_or_else(|| format!("a row of sequence {} of a step", found.sequence))?;
            let position = usize::try_from(found.position).map_err(|_| "a position past all".to_owned())?;
            let (Some(session), true) = (step.session.upgrade(), of.holds(position)) else { continue };
            let fault = self.fault(FaultKind::NotFinite, usize::from(found.stage), &found.detail());
            let (first, rows) = (of.first as u32, of.rows as u32);
            let fault = StageFault { request: step.request, position: first, rows, ..fault };
            session.note_fault(SequenceFault { sequence: of.sequence, position, fault });
        }
        Ok(())
    }
}
