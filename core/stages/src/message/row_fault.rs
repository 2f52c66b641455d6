//! [`RowFault`]: a row with a value that is not finite, as a stage received it.

use crate::frame::payload::{PayloadReader, PayloadWriter};

/// A row with a value that is not finite. Its sequence fails; the others of the step continue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowFault {
    /// The stage that received it.
    pub(crate) stage: u16,
    /// Index of its sequence in the step.
    pub(crate) sequence: u32,
    /// Its position in the sequence.
    pub(crate) position: u64,
    pub(crate) column: u32,
    pub(crate) value: f32,
}

impl RowFault {
    /// Appends faults to a payload.
    pub(crate) fn encode_all(faults: &[Self], out: &mut PayloadWriter) {
        out.count(faults.len());
        for Self { stage, sequence, position, column, value } in faults {
            out.u32(u32::from(*stage));
            out.u32(*sequence);
            out.u64(*position);
            out.u32(*column);
            out.u32(value.to_bits());
        }
    }

    /// Reads the faults of a payload.
    pub(crate) fn decode_all(from: &mut PayloadReader) -> Result<Vec<Self>, String> {
        let count = from.count(24)?;
        let fault = |_| {
            let stage =
                u16::try_from(from.u32()?).map_err(|_| "the number of a stage is too large".to_owned())?;
            let (sequence, position, column) = (from.u32()?, from.u64()?, from.u32()?);
            Ok(Self { stage, sequence, position, column, value: f32::from_bits(from.u32()?) })
        };
        (0..count).map(fault).collect()
    }

    /// The message: what happened, and what to do.
    pub(crate) fn detail(&self) -> String {
        let Self { position, column, value, .. } = self;
        format!(
            "column {column} of the row at position {position} that it received is {value}; the weights are damaged, or the KV \
             cache overflows (--kv-type f32 rules this out)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_round_trip_and_are_never_read_past_their_end() {
        let fault = RowFault { stage: 2, sequence: 1, position: 40, column: 7, value: f32::INFINITY };
        let all = [fault, RowFault { sequence: 3, value: f32::NEG_INFINITY, ..fault }];
        let mut out = PayloadWriter::default();
        RowFault::encode_all(&all, &mut out);
        assert_eq!(RowFault::decode_all(&mut PayloadReader::new(&out.0)).unwrap(), all);
        for cut in 0..out.0.len() {
            assert!(RowFault::decode_all(&mut PayloadReader::new(&out.0[..cut])).is_err(), "{cut} bytes");
        }
    }
}
