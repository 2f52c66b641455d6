//! [`StageTime`]: when a stage computed a step, and the encoding of its times.

use crate::frame::payload::{PayloadReader, PayloadWriter};
use std::time::{SystemTime, UNIX_EPOCH};

/// When a stage computed a step, in microseconds since 1970 (clock of its machine).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageTime {
    /// The stage.
    pub stage: u16,
    /// The number of the step.
    pub step: u32,
    /// Rows of the step.
    pub rows: u32,
    /// Start time.
    pub began: u64,
    /// End time.
    pub ended: u64,
}

/// Microseconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

pub(crate) fn encode(began: u64, ended: u64) -> Vec<u8> {
    let mut out = PayloadWriter::default();
    out.u64(began);
    out.u64(ended);
    out.0
}

pub(crate) fn decode(payload: &[u8]) -> Result<(u64, u64), String> {
    let mut from = PayloadReader::new(payload);
    let times = (from.u64()?, from.u64()?);
    from.end()?;
    Ok(times)
}
