//! [`OutgoingStep`]: a step before it is sent.

use super::pending::PendingRows;
use super::session::ChainSession;
use crate::frame::{FrameHeader, FrameKind};
use crate::message::step::StepMessage;
use menagerie_model::{Cancellation, InferenceStep, SequenceId};
use std::sync::Arc;

/// A step before it is sent.
#[derive(Clone, Copy)]
pub(super) struct OutgoingStep<'a> {
    pub(super) session: &'a Arc<ChainSession>,
    pub(super) message: &'a StepMessage,
    /// The sequences of its rows, in the order of the message.
    pub(super) sequences: &'a [SequenceId],
    /// The number of rows that are expected as its result.
    pub(super) expected: usize,
    pub(super) cancelled: Cancellation<'a>,
}

impl OutgoingStep<'_> {
    /// Its rows by sequence.
    pub(super) fn rows(&self) -> Vec<PendingRows> {
        let parts = self.sequences.iter().zip(&self.message.sequences);
        parts.map(|(id, part)| PendingRows::new(*id, part.placement.tokens, part.placement.rows)).collect()
    }

    /// The header of its frame, with the number of the step.
    pub(super) fn header(&self, step: u32) -> FrameHeader {
        let Self { session, message, expected, .. } = self;
        let is_last =
            |step: &InferenceStep| matches!(step, InferenceStep::Prefill { is_final_chunk: true, .. });
        FrameHeader {
            last_chunk: message.sequences.iter().any(|part| is_last(&part.step)),
            needs_logits: *expected > 0,
            epoch: session.epoch(),
            request: session.number,
            step,
            position: message.sequences.first().map_or(0, |part| part.placement.tokens as u32),
            rows: message.rows() as u32,
            ..FrameHeader::of(FrameKind::Step)
        }
    }
}
