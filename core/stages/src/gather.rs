//! [`GatherMessage`]: asks all stages for something that they kept, and waits for what was begun.

use crate::bytes::{Reader, Writer};

/// What stages are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Nothing: that it comes round says that every step before it is done.
    Nothing,
    /// What copies of the hook of this number kept.
    Hook(u32),
    /// What was noted for the trace of this number.
    Trace(u64),
}

/// A question that goes round; behind the pieces of a stage it says how many they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatherMessage {
    pub(crate) asked: Asked,
    /// Pieces that each stage gave.
    pub(crate) given: Vec<u32>,
}

impl GatherMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        let (kind, number) = match self.asked {
            Asked::Nothing => (0, 0),
            Asked::Hook(number) => (1, u64::from(number)),
            Asked::Trace(number) => (2, number),
        };
        out.u8(kind);
        out.u64(number);
        out.u32s(&self.given);
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = Reader::new(payload);
        let (kind, number) = (from.u8()?, from.u64()?);
        let asked = match kind {
            0 => Asked::Nothing,
            1 => Asked::Hook(u32::try_from(number).map_err(|_| format!("hook {number}"))?),
            2 => Asked::Trace(number),
            kind => return Err(format!("a question of kind {kind}")),
        };
        let given = from.u32s()?;
        from.end()?;
        Ok(Self { asked, given })
    }
}

/// A piece with the number of its stage before it.
pub(crate) fn piece_of(stage: usize, piece: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(stage as u32);
    out.0.extend_from_slice(piece);
    out.0
}

/// The stage that a piece is of, and the piece.
pub(crate) fn stage_of(payload: &[u8]) -> Result<(usize, &[u8]), String> {
    let mut from = Reader::new(payload);
    let stage = from.u32()? as usize;
    Ok((stage, &payload[4..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_back_as_they_were() {
        for asked in [Asked::Nothing, Asked::Hook(7), Asked::Trace(u64::MAX)] {
            let message = GatherMessage { asked, given: vec![3, 0] };
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
