//! [`Sending`]: a step that is to be sent.

use crate::frame::{FrameKind, Header};
use crate::session::Session;
use crate::step::StepMessage;
use menagerie_model::InferenceStep;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A step that is to be sent.
#[derive(Clone, Copy)]
pub(super) struct Sending<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) message: &'a StepMessage,
    /// Rows that are waited for.
    pub(super) wanted: usize,
    pub(super) cancelled: Option<&'a AtomicBool>,
}

impl Sending<'_> {
    /// The header of its frame, with the number that the chain gives it.
    pub(super) fn header(&self, step: u32) -> Header {
        let Self { session, message, wanted, .. } = self;
        let rows: usize = message.sequences.iter().map(|part| part.placement.rows).sum();
        let is_last =
            |step: &InferenceStep| matches!(step, InferenceStep::Prefill { is_final_chunk: true, .. });
        Header {
            last_chunk: message.sequences.iter().any(|part| is_last(&part.step)),
            wants_logits: *wanted > 0,
            epoch: session.epoch(),
            request: session.number,
            step,
            position: message.sequences.first().map_or(0, |part| part.placement.tokens as u32),
            rows: rows as u32,
            ..Header::of(FrameKind::Step)
        }
    }
}
