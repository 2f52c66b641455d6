//! [`StatesMessage`]: reads or writes the contents of a state of a request.

use crate::block_copies::BlockCopies;
use crate::frame::payload::{PayloadReader, PayloadWriter};
use crate::message::state_change::SetChange;
use menagerie_model::{ModelError, RowRun, StateId, StatePool};

/// A read or write access to a state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StateAccess {
    /// Reads token rows.
    ReadRows(RowRun),
    /// Overwrites token rows with these bytes.
    WriteRows(RowRun, Vec<u8>),
    /// Reads a block.
    ReadBlock(u32),
    /// Overwrites a block with these values.
    WriteBlock(u32, Vec<f32>),
    /// Reads a copy of a block.
    ReadCopy(u64),
    /// The access is completed, and this was read.
    Completed(Vec<u8>),
}

/// An access, and the state changes before it. It is sent to every stage; the one that has the state executes it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatesMessage {
    pub(crate) changes: Vec<SetChange>,
    /// The state set.
    pub(crate) set: u32,
    /// The number of the state in the whole model.
    pub(crate) state: u32,
    pub(crate) access: StateAccess,
}

impl StatesMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = PayloadWriter::default();
        out.count(self.changes.len());
        self.changes.iter().for_each(|change| change.encode(&mut out));
        out.u32(self.set);
        out.u32(self.state);
        self.access.encode(&mut out);
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = PayloadReader::new(payload);
        let count = from.count(21)?;
        let changes = (0..count).map(|_| SetChange::decode(&mut from)).collect::<Result<_, _>>()?;
        let (set, state) = (from.u32()?, from.u32()?);
        let access = StateAccess::decode(&mut from)?;
        from.end()?;
        Ok(Self { changes, set, state, access })
    }
}

impl StateAccess {
    fn encode(&self, out: &mut PayloadWriter) {
        match self {
            Self::ReadRows(run) => {
                out.u8(0);
                [run.row, run.len].iter().for_each(|number| out.count(*number));
            }
            Self::WriteRows(run, bytes) => {
                out.u8(1);
                [run.row, run.len].iter().for_each(|number| out.count(*number));
                out.bytes(bytes);
            }
            Self::ReadBlock(block) => {
                out.u8(2);
                out.u32(*block);
            }
            Self::WriteBlock(block, values) => {
                out.u8(3);
                out.u32(*block);
                out.f32s(values);
            }
            Self::ReadCopy(copy) => {
                out.u8(4);
                out.u64(*copy);
            }
            Self::Completed(bytes) => {
                out.u8(5);
                out.bytes(bytes);
            }
        }
    }

    fn decode(from: &mut PayloadReader) -> Result<Self, String> {
        let run =
            |from: &mut PayloadReader| Ok::<_, String>(RowRun { row: from.number()?, len: from.number()? });
        Ok(match from.u8()? {
            0 => Self::ReadRows(run(from)?),
            1 => Self::WriteRows(run(from)?, from.bytes()?),
            2 => Self::ReadBlock(from.u32()?),
            3 => Self::WriteBlock(from.u32()?, from.f32s()?),
            4 => Self::ReadCopy(from.u64()?),
            5 => Self::Completed(from.bytes()?),
            kind => return Err(format!("unknown kind {kind} of state access")),
        })
    }

    /// Executes the access in the pool of the stage that has the state; returns what was read.
    pub(crate) fn apply(
        &self,
        state: StateId,
        pool: &mut StatePool,
        copies: &BlockCopies,
    ) -> Result<Vec<u8>, ModelError> {
        match self {
            Self::ReadRows(run) => {
                let pages = pages(*run, pool.page_len())?;
                pool.memory_of(state, &pages)?.read_rows(state, *run)
            }
            Self::WriteRows(run, bytes) => {
                let pages = pages(*run, pool.page_len())?;
                pool.memory_of(state, &pages)?.write_rows(state, *run, bytes)?;
                Ok(Vec::new())
            }
            Self::ReadBlock(block) => {
                Ok(to_bytes(&pool.memory_of(state, &[*block])?.read_block(state, *block)?))
            }
            Self::WriteBlock(block, values) => {
                pool.memory_of(state, &[*block])?.write_block(state, *block, values)?;
                Ok(Vec::new())
            }
            Self::ReadCopy(copy) => {
                let copy = copies.get(*copy)?;
                Ok(to_bytes(&pool.memory_of(state, &[])?.kept_values(copy)?))
            }
            Self::Completed(_) => Ok(Vec::new()),
        }
    }
}

/// First and last page of rows.
fn pages(run: RowRun, page_len: usize) -> Result<[u32; 2], ModelError> {
    let page = |row: usize| u32::try_from(row / page_len.max(1)).ok();
    let last = run.row.checked_add(run.len.saturating_sub(1));
    let pages = page(run.row).zip(last.and_then(page));
    let (first, last) = pages.ok_or_else(|| {
        ModelError::State(format!("{} rows from row {} on cannot be addressed", run.len, run.row))
    })?;
    Ok([first, last])
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The values of a block that was read.
///
/// # Errors
/// The bytes are not whole values.
pub(crate) fn to_values(bytes: &[u8]) -> Result<Vec<f32>, ModelError> {
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let reason = format!("a stage returned {} bytes, which are not whole f32 values", bytes.len());
        return Err(ModelError::State(reason));
    }
    Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::state_change::StateChange;

    #[test]
    fn an_access_round_trips_and_is_never_read_past_its_end() {
        let run = RowRun { row: 70, len: 3 };
        for access in [
            StateAccess::ReadRows(run),
            StateAccess::WriteRows(run, vec![1, 2, 3]),
            StateAccess::ReadBlock(4),
            StateAccess::WriteBlock(4, vec![0.5, -1.0]),
            StateAccess::ReadCopy(9),
            StateAccess::Completed(vec![7; 9]),
        ] {
            let changes = vec![SetChange { set: 1, change: StateChange::Clear { state: 2, block: 1 } }];
            let message = StatesMessage { changes, set: 1, state: 3, access };
            let payload = message.encode();
            assert_eq!(StatesMessage::decode(&payload).unwrap(), message);
            for cut in 0..payload.len() {
                assert!(StatesMessage::decode(&payload[..cut]).is_err(), "{cut} bytes of {message:?}");
            }
        }
    }

    #[test]
    fn rows_that_cannot_be_addressed_are_refused() {
        assert_eq!(pages(RowRun { row: 130, len: 4 }, 64).unwrap(), [2, 2]);
        assert!(pages(RowRun { row: usize::MAX, len: 2 }, 64).is_err());
        assert!(to_values(&[1, 2, 3]).is_err());
    }
}
