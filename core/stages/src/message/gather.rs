//! [`GatherMessage`]: requests recorded data from all stages, and waits for the steps before it.

use crate::frame::payload::{PayloadReader, PayloadWriter};

/// The data that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GatherSubject {
    /// None: when the message returns, every step before it is done.
    Nothing,
    /// What the copies of the hook of this number recorded.
    Hook(u32),
    /// The times of the trace of this number.
    Trace(u64),
}

/// A request that passes through all stages. Each stage sends its pieces before it and adds their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatherMessage {
    pub(crate) subject: GatherSubject,
    /// The number of pieces from each stage so far.
    pub(crate) pieces: Vec<u32>,
}

impl GatherMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = PayloadWriter::default();
        let (kind, number) = match self.subject {
            GatherSubject::Nothing => (0, 0),
            GatherSubject::Hook(number) => (1, u64::from(number)),
            GatherSubject::Trace(number) => (2, number),
        };
        out.u8(kind);
        out.u64(number);
        out.u32s(&self.pieces);
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = PayloadReader::new(payload);
        let (kind, number) = (from.u8()?, from.u64()?);
        let subject = match kind {
            0 => GatherSubject::Nothing,
            1 => GatherSubject::Hook(
                u32::try_from(number).map_err(|_| format!("hook number {number} is too large"))?,
            ),
            2 => GatherSubject::Trace(number),
            kind => return Err(format!("unknown kind {kind} of requested data")),
        };
        let pieces = from.u32s()?;
        from.end()?;
        Ok(Self { subject, pieces })
    }
}

/// A piece, preceded by the number of its stage.
pub(crate) fn piece_of(stage: usize, piece: &[u8]) -> Vec<u8> {
    let mut out = PayloadWriter::default();
    out.u32(stage as u32);
    out.0.extend_from_slice(piece);
    out.0
}

/// The number of the stage, and the piece.
pub(crate) fn stage_of(payload: &[u8]) -> Result<(usize, &[u8]), String> {
    let mut from = PayloadReader::new(payload);
    let stage = from.u32()? as usize;
    Ok((stage, &payload[4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gather_messages_round_trip() {
        for subject in [GatherSubject::Nothing, GatherSubject::Hook(7), GatherSubject::Trace(u64::MAX)] {
            let message = GatherMessage { subject, pieces: vec![3, 0] };
            let payload = message.encode();
            assert_eq!(GatherMessage::decode(&payload).unwrap(), message);
            for cut in 0..payload.len() {
                assert!(GatherMessage::decode(&payload[..cut]).is_err(), "{cut} bytes");
            }
        }
        assert_eq!(stage_of(&piece_of(2, b"abc")).unwrap(), (2, &b"abc"[..]));
        assert!(stage_of(b"ab").is_err());
    }
}
