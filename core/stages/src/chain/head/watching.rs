//! What stages kept of hooks and times, asked for by the chain.

use super::{Came, Head, LOOK, Waiting};
use crate::fault::{FaultKind, StageFault};
use crate::frame::{FrameKind, Header};
use crate::gather::{Asked, GatherMessage, stage_of};
use crate::link::sooner;
use menagerie_model::ModelError;
use std::time::Instant;

/// Is given the pieces of each stage.
pub(in crate::chain) type TakePiece<'a> = &'a mut dyn FnMut(usize, &[u8]) -> Result<(), ModelError>;

impl Head {
    /// How many stages there are, as messages call them.
    pub(in crate::chain) fn stage_names(&self) -> Vec<String> {
        self.names.iter().map(ToString::to_string).collect()
    }

    /// Waits until every step is done, and gives `take` what the stages kept of what is asked for, piece by piece in the
    /// order of each stage. Each piece has the time of a step.
    pub(in crate::chain) fn gather(&mut self, asked: Asked, take: TakePiece) -> Result<(), ModelError> {
        self.questions = self.questions.wrapping_add(1);
        let question = self.questions;
        let header = Header { position: question, ..Header::of(FrameKind::Gather) };
        let mut waiting = Waiting { by: self.by(), session: None, cancelled: None };
        self.send(header, GatherMessage { asked, given: Vec::new() }.encode(), &waiting)?;
        let mut taken = vec![0; self.names.len()];
        loop {
            let (header, payload) = match self.look(sooner(waiting.by, LOOK), &waiting)? {
                Some(Came::Round(header, payload)) if header.position == question => (header, payload),
                None if Instant::now() >= waiting.by => return Err(self.silent().into()),
                _ => continue,
            };
            waiting.by = self.by();
            match header.kind {
                FrameKind::Gathered => {
                    let (stage, piece) = stage_of(&payload).map_err(|detail| self.garbled(&detail))?;
                    let count = taken.get_mut(stage);
                    *count.ok_or_else(|| self.garbled("a piece of a stage that is none"))? += 1;
                    take(stage, piece)?;
                }
                FrameKind::Gather => {
                    let given =
                        GatherMessage::decode(&payload).map_err(|detail| self.garbled(&detail))?.given;
                    return self.complete(&given, &taken).map_err(Into::into);
                }
                _ => {}
            }
        }
    }

    /// As many pieces came as each stage gave.
    fn complete(&self, given: &[u32], taken: &[u32]) -> Result<(), StageFault> {
        if given == taken {
            return Ok(());
        }
        let stage = given.iter().zip(taken).position(|(given, taken)| given != taken).unwrap_or(0);
        let count = |all: &[u32]| all.get(stage).copied().unwrap_or(0);
        let detail = format!("gave {} pieces of what it kept, and {} came", count(given), count(taken));
        Err(self.fault(FaultKind::Missing, stage, &detail))
    }

    fn garbled(&self, detail: &str) -> StageFault {
        self.fault(FaultKind::Corrupted, self.names.len() - 1, detail)
    }

    fn silent(&self) -> StageFault {
        let seconds = self.options.deadline.as_secs_f64();
        let detail = format!(
            "what the stages kept has not come for {seconds} s: one is stopped, hangs or is too slow; --stage-deadline gives it \
             more time"
        );
        self.fault(FaultKind::Late, self.names.len() - 1, &detail)
    }
}
