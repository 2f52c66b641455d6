//! [`StageFault`]: what went wrong in a split model, and where.

use crate::bytes::{Reader, Writer};
use menagerie_model::ModelError;
use std::fmt;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A frame that was sent did not arrive.
    Missing,
    /// A frame arrived twice.
    Doubled,
    /// A frame's checksum is another, or its fields contradict each other.
    Corrupted,
    /// A frame of an epoch that is over.
    Stale,
    /// Rows that are no numbers.
    NotFinite,
    /// Nothing came before the deadline.
    Late,
    /// The other end is gone.
    Closed,
    /// A layer, the embedding or the head reports an error.
    Computing,
    /// Cancelled by who asked.
    Cancelled,
    /// A stage has another model, version or arithmetic.
    Refused,
    /// Something that a split model does not have.
    Unsupported,
}

impl FaultKind {
    const ALL: [Self; 11] = [
        Self::Missing,
        Self::Doubled,
        Self::Corrupted,
        Self::Stale,
        Self::NotFinite,
        Self::Late,
        Self::Closed,
        Self::Computing,
        Self::Cancelled,
        Self::Refused,
        Self::Unsupported,
    ];
}

/// A stage, as messages call it.
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
    /// The stage that noticed it, or that does not answer.
    pub stage: StageName,
    /// The request; 0 where it is of none, or cannot be known.
    pub request: u64,
    /// Position of the step's first row.
    pub position: u32,
    /// Rows of the step, which follow each other; 0 where they are of several sequences, or not known.
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
            _ => Self::Stage(Box::new(fault)),
        }
    }
}

impl StageFault {
    /// A fault of a stage that is of no request.
    pub(crate) fn of(kind: FaultKind, stage: StageName, detail: impl Into<String>) -> Self {
        Self { kind, stage, request: 0, position: 0, rows: 0, detail: detail.into() }
    }

    /// The same for whoever computes a request from the position `first` on: that it is of a chunk before it is said.
    pub(crate) fn seen_from(self, request: u64, first: usize) -> Self {
        let end = self.position as usize + self.rows as usize;
        if self.request != request || self.rows == 0 || end > first {
            return self;
        }
        let detail = format!("{} (this chunk was sent before, and not waited for)", self.detail);
        Self { detail, ..self }
    }

    /// Whether it is the stages' and links' own, and not one of what was to be computed: the same may succeed later, or with
    /// other stages.
    pub fn is_of_links(&self) -> bool {
        match self.kind {
            FaultKind::Missing
            | FaultKind::Doubled
            | FaultKind::Corrupted
            | FaultKind::Stale
            | FaultKind::Late
            | FaultKind::Closed
            | FaultKind::Refused => true,
            FaultKind::NotFinite | FaultKind::Computing | FaultKind::Cancelled | FaultKind::Unsupported => {
                false
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
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
        let mut from = Reader::new(payload);
        let number = from.u8()?;
        let kind = FaultKind::ALL.get(usize::from(number)).copied();
        let kind = kind.ok_or_else(|| format!("fault {number} is not known"))?;
        let index = u16::try_from(from.u32()?).map_err(|_| "a stage past the last".to_owned())?;
        let stage = StageName { index, first: from.u32()?, end: from.u32()? };
        let (request, position, rows, detail) = (from.u64()?, from.u32()?, from.u32()?, from.text()?);
        from.end()?;
        Ok(Self { kind, stage, request, position, rows, detail })
    }
}
