//! [`StageFault`]: a fault of a model in stages, and where it occurred.

use crate::frame::payload::{PayloadReader, PayloadWriter};
use menagerie_model::ModelError;
use std::fmt;
use std::sync::Arc;

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A frame was lost.
    Missing,
    /// A frame arrived twice.
    Duplicate,
    /// A frame's checksum is wrong, or its fields contradict each other.
    Corrupted,
    /// A frame belongs to an epoch that has ended.
    Stale,
    /// A row has values that are not finite.
    NotFinite,
    /// No answer arrived before the deadline.
    Timeout,
    /// The other end is gone.
    Closed,
    /// A layer, the embedding or the head reported an error.
    Execution,
    /// The caller cancelled it.
    Cancelled,
    /// A stage was started with another model, version or options.
    Refused,
    /// A model in stages does not support it.
    Unsupported,
    /// A request needs more memory than a stage has for it.
    TooLarge,
}

impl FaultKind {
    const ALL: [Self; 12] = [
        Self::Missing,
        Self::Duplicate,
        Self::Corrupted,
        Self::Stale,
        Self::NotFinite,
        Self::Timeout,
        Self::Closed,
        Self::Execution,
        Self::Cancelled,
        Self::Refused,
        Self::Unsupported,
        Self::TooLarge,
    ];
}

/// The name of a stage in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageName {
    /// Its number, from 0.
    pub index: u16,
    /// Its first layer.
    pub first: u32,
    /// The layer after its last.
    pub end: u32,
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, first, end } = self;
        match end.saturating_sub(*first) {
            0 => write!(f, "stage {index}"),
            1 => write!(f, "stage {index} (layer {first})"),
            _ => write!(f, "stage {index} (layers {first} to {})", end - 1),
        }
    }
}

/// A fault of a stage or of a link to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFault {
    /// What went wrong.
    pub kind: FaultKind,
    /// The stage that detected it, or that does not answer.
    pub stage: StageName,
    /// The request; 0 if it concerns none, or an unknown one.
    pub request: u64,
    /// Position of the step's first row.
    pub position: u32,
    /// Consecutive rows of the step; 0 if they belong to several sequences, or are unknown.
    pub rows: u32,
    /// What happened, and what to do.
    pub detail: String,
}

impl fmt::Display for StageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stage, request, position, rows, detail, .. } = self;
        match (request, rows) {
            (0, _) => write!(f, "{stage}: {detail}"),
            (_, 0 | 1) => write!(f, "{stage}, request {request}, position {position}: {detail}"),
            _ => {
                let last = position.saturating_add(rows - 1);
                write!(f, "{stage}, request {request}, positions {position} to {last}: {detail}")
            }
        }
    }
}

impl std::error::Error for StageFault {}

impl From<StageFault> for ModelError {
    fn from(fault: StageFault) -> Self {
        match fault.kind {
            FaultKind::Cancelled => Self::Cancelled,
            _ => Self::Stage(Arc::new(fault)),
        }
    }
}

impl StageFault {
    /// A fault of a stage that concerns no request.
    pub(crate) fn of(kind: FaultKind, stage: StageName, detail: impl Into<String>) -> Self {
        Self { kind, stage, request: 0, position: 0, rows: 0, detail: detail.into() }
    }

    /// The fault as reported to a step of the request from position `first` on: the message says so if an earlier chunk failed.
    pub(crate) fn seen_from(self, request: u64, first: usize) -> Self {
        let end = self.position as usize + self.rows as usize;
        if self.request != request || self.rows == 0 || end > first {
            return self;
        }
        let detail = format!("{} (in an earlier chunk of the prompt)", self.detail);
        Self { detail, ..self }
    }

    /// Whether stages or links failed, not the computation: the same request may succeed later, or with other stages.
    pub fn is_of_links(&self) -> bool {
        match self.kind {
            FaultKind::Missing
            | FaultKind::Duplicate
            | FaultKind::Corrupted
            | FaultKind::Stale
            | FaultKind::Timeout
            | FaultKind::Closed
            | FaultKind::Refused => true,
            FaultKind::NotFinite
            | FaultKind::Execution
            | FaultKind::Cancelled
            | FaultKind::Unsupported
            | FaultKind::TooLarge => false,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = PayloadWriter::default();
        let number = FaultKind::ALL.iter().position(|kind| *kind == self.kind).unwrap_or(0);
        out.u8(number as u8);
        out.u32(u32::from(self.stage.index));
        out.u32(self.stage.first);
        out.u32(self.stage.end);
        out.u64(self.request);
        out.u32(self.position);
        out.u32(self.rows);
        out.text(&self.detail);
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = PayloadReader::new(payload);
        let number = from.u8()?;
        let kind = FaultKind::ALL.get(usize::from(number)).copied();
        let kind = kind.ok_or_else(|| format!("unknown fault number {number}"))?;
        let index =
            u16::try_from(from.u32()?).map_err(|_| "the number of a stage is too large".to_owned())?;
        let stage = StageName { index, first: from.u32()?, end: from.u32()? };
        let (request, position, rows, detail) = (from.u64()?, from.u32()?, from.u32()?, from.text()?);
        from.end()?;
        Ok(Self { kind, stage, request, position, rows, detail })
    }
}
