//! Collects recorded data of hooks and traces from the stages.

use super::{Arrival, ChainHead, POLL_INTERVAL, WaitContext};
use crate::fault::{FaultKind, StageFault};
use crate::frame::{FrameHeader, FrameKind};
use crate::link::sooner;
use crate::message::gather::{GatherMessage, GatherSubject, stage_of};
use menagerie_model::{Cancellation, ModelError};
use std::time::Instant;

/// Receives the pieces, with the index of their stage.
pub(in crate::chain) type TakePiece<'a> = &'a mut dyn FnMut(usize, &[u8]) -> Result<(), ModelError>;

impl ChainHead {
    /// The names of the stages in messages.
    pub(in crate::chain) fn stage_names(&self) -> Vec<String> {
        self.names.iter().map(ToString::to_string).collect()
    }

    /// Waits until every step is done, and passes the requested data of the stages to `take`, in pieces. Each piece may take
    /// as long as a step.
    pub(in crate::chain) fn gather(
        &mut self,
        subject: GatherSubject,
        take: TakePiece,
    ) -> Result<(), ModelError> {
        self.gathers = self.gathers.wrapping_add(1);
        let number = self.gathers;
        let header = FrameHeader { position: number, ..FrameHeader::of(FrameKind::Gather) };
        let mut wait = WaitContext { by: self.by(), session: None, cancelled: Cancellation::default() };
        self.send(header, GatherMessage { subject, pieces: Vec::new() }.encode(), &wait)?;
        let mut taken = vec![0; self.names.len()];
        loop {
            let (header, payload) = match self.next_arrival(sooner(wait.by, POLL_INTERVAL), &wait)? {
                Some(Arrival::Round(header, payload)) if header.position == number => (header, payload),
                None if Instant::now() >= wait.by => return Err(self.gather_timeout().into()),
                _ => continue,
            };
            wait.by = self.by();
            match header.kind {
                FrameKind::Piece => {
                    let (stage, piece) = stage_of(&payload).map_err(|detail| self.garbled(&detail))?;
                    let count = taken.get_mut(stage);
                    *count.ok_or_else(|| self.garbled("a piece names a stage that does not exist"))? += 1;
                    take(stage, piece)?;
                }
                FrameKind::Gather => {
                    let sent =
                        GatherMessage::decode(&payload).map_err(|detail| self.garbled(&detail))?.pieces;
                    return self.check_complete(&sent, &taken).map_err(Into::into);
                }
                _ => {}
            }
        }
    }

    /// Checks that all pieces of each stage have arrived.
    fn check_complete(&self, sent: &[u32], taken: &[u32]) -> Result<(), StageFault> {
        if sent == taken {
            return Ok(());
        }
        let stage = sent.iter().zip(taken).position(|(sent, taken)| sent != taken).unwrap_or(0);
        let count = |all: &[u32]| all.get(stage).copied().unwrap_or(0);
        let detail = format!("sent {} pieces of recorded data, {} arrived", count(sent), count(taken));
        Err(self.fault(FaultKind::Missing, stage, &detail))
    }

    fn garbled(&self, detail: &str) -> StageFault {
        self.fault(FaultKind::Corrupted, self.names.len() - 1, detail)
    }

    fn gather_timeout(&self) -> StageFault {
        let seconds = self.options.deadline.as_secs_f64();
        let detail = format!(
            "recorded data of the stages has not arrived for {seconds} s: a stage is stopped, hangs or is too slow; \
             --stage-deadline gives it more time"
        );
        self.fault(FaultKind::Timeout, self.names.len() - 1, &detail)
    }
}
