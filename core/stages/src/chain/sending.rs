//! [`Sending`]: a step that is to be sent.

use super::pending::PendingRows;
use crate::frame::{FrameKind, Header};
use crate::session::Session;
use crate::step::StepMessage;
use menagerie_model::{InferenceStep, SequenceId};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A step that is to be sent.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) message: &'a StepMessage,
    /// Whose rows they are, in the order of the message.
    pub(super) sequences: &'a [SequenceId],
    /// Rows that are waited for.
    pub(super) wanted: usize,
    pub(super) cancelled: Option<&'a AtomicBool>,
}

impl Sending<'_> {
    /// Its rows, by sequence.
    pub(super) fn rows(&self) -> Vec<PendingRows> {
        let parts = self.sequences.iter().zip(&self.message.sequences);
        parts.map(|(id, part)| PendingRows::new(*id, part.placement.tokens, part.placement.rows)).collect()
    }

    /// The header of its frame, with the number that the chain gives it.
    pub(super) fn header(&self, step: u32) -> Header {
        let Self { session, message, wanted, .. } = self;
        let is_last =
            |step: &InferenceStep| matches!(step, InferenceStep::Prefill { is_final_chunk: true, .. });
        Header {
            last_chunk: message.sequences.iter().any(|part| is_last(&part.step)),
            wants_logits: *wanted > 0,
            epoch: session.epoch(),
            request: session.number,
            step,
            position: message.sequences.first().map_or(0, |part| part.placement.tokens as u32),
            rows: message.rows() as u32,
            ..Header::of(FrameKind::Step)
        }
    }
}
