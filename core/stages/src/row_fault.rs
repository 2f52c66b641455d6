//! [`RowFault`]: a row that is no number, as a stage was given it.

use crate::bytes::{Reader, Writer};

/// A row that is no number. Its sequence fails, and the others of the step go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowFault {
    /// The stage that was given it.
    pub(crate) stage: u16,
    /// Its sequence, by place in the step.
    pub(crate) sequence: u32,
    /// Its position in the sequence.
    pub(crate) position: u64,
    pub(crate) column: u32,
    pub(crate) value: f32,
}

impl RowFault {
    /// Puts faults into a payload.
    pub(crate) fn encode_all(faults: &[Self], out: &mut Writer) {
        out.count(faults.len());
        for Self { stage, sequence, position, column, value } in faults {
            out.u32(u32::from(*stage));
            out.u32(*sequence);
            out.u64(*position);
            out.u32(*column);
            out.u32(value.to_bits());
        }
    }

    /// Takes them off again.
    pub(crate) fn decode_all(from: &mut Reader) -> Result<Vec<Self>, String> {
        let count = from.count(24)?;
        let fault = |_| {
            let stage = u16::try_from(from.u32()?).map_err(|_| "a stage past the last".to_owned())?;
            let (sequence, position, column) = (from.u32()?, from.u64()?, from.u32()?);
            Ok(Self { stage, sequence, position, column, value: f32::from_bits(from.u32()?) })
        };
        (0..count).map(fault).collect()
    }

    /// What happened, and what to do.
    pub(crate) fn detail(&self) -> String {
        let Self { position, column, value, .. } = self;
        format!(
            "column {column} of the row at position {position} that it was given is {value}; the weights are broken, or the \
             cache overflows (--kv-type f32 rules that out)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_back_as_they_were_and_are_never_read_past_their_end() {
        let fault = RowFault { stage: 2, sequence: 1, position: 40, column: 7, value: f32::INFINITY };
        let all = [fault, RowFault { sequence: 3, value: f32::NEG_INFINITY, ..fault }];
        let mut out = Writer::default();
        RowFault::encode_all(&all, &mut out);
        assert_eq!(RowFault::decode_all(&mut Reader::new(&out.0)).unwrap(), all);
        for cut in 0..out.0.len() {
            assert!(RowFault::decode_all(&mut Reader::new(&out.0[..cut])).is_err(), "{cut} bytes");
        }
    }
}
