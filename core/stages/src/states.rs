//! [`StatesMessage`]: what a state of a request holds, read or written from afar.

use crate::bytes::{Reader, Writer};
use crate::change::SetChange;
use menagerie_model::{BlockCopy, ModelError, RowRun, StateId, StatePool};
use std::collections::HashMap;

/// What is read or written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Access {
    /// Token rows.
    ReadRows(RowRun),
    /// Token rows become these bytes.
    WriteRows(RowRun, Vec<u8>),
    /// A block.
    ReadBlock(u32),
    /// A block becomes these values.
    WriteBlock(u32, Vec<f32>),
    /// A copy of a block that was kept.
    ReadCopy(u64),
    /// It was done, and this was read.
    Done(Vec<u8>),
}

/// An access, and what happened to the memory of states before it. It goes to every stage; the one that has the state does it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StatesMessage {
    pub(crate) changes: Vec<SetChange>,
    /// The set of states.
    pub(crate) set: u32,
    /// Numbered over the whole model.
    pub(crate) state: u32,
    pub(crate) access: Access,
}

impl StatesMessage {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.count(self.changes.len());
        self.changes.iter().for_each(|change| change.encode(&mut out));
        out.u32(self.set);
        out.u32(self.state);
        self.access.encode(&mut out);
        out.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, String> {
        let mut from = Reader::new(payload);
        let count = from.count(21)?;
        let changes = (0..count).map(|_| SetChange::decode(&mut from)).collect::<Result<_, _>>()?;
        let (set, state) = (from.u32()?, from.u32()?);
        let access = Access::decode(&mut from)?;
        from.end()?;
        Ok(Self { changes, set, state, access })
    }
}

impl Access {
    fn encode(&self, out: &mut Writer) {
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
            Self::Done(bytes) => {
                out.u8(5);
                out.bytes(bytes);
            }
        }
    }

    fn decode(from: &mut Reader) -> Result<Self, String> {
        let run = |from: &mut Reader| Ok::<_, String>(RowRun { row: from.number()?, len: from.number()? });
        Ok(match from.u8()? {
            0 => Self::ReadRows(run(from)?),
            1 => Self::WriteRows(run(from)?, from.bytes()?),
            2 => Self::ReadBlock(from.u32()?),
            3 => Self::WriteBlock(from.u32()?, from.f32s()?),
            4 => Self::ReadCopy(from.u64()?),
            5 => Self::Done(from.bytes()?),
            kind => return Err(format!("reads and writes of kind {kind} are not known")),
        })
    }

    /// Does it to the pool of the stage that has the state; gives what was read.
    pub(crate) fn apply(
        &self,
        state: StateId,
        pool: &mut StatePool,
        kept: &HashMap<u64, BlockCopy>,
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
                let kept = kept.get(copy).ok_or_else(|| {
                    ModelError::State(format!("copy {copy} of a recurrent state is not in this stage"))
                })?;
                Ok(to_bytes(&pool.memory_of(state, &[])?.kept_values(kept)?))
            }
            Self::Done(_) => Ok(Vec::new()),
        }
    }
}

/// First and last page of rows.
fn pages(run: RowRun, page_len: usize) -> Result<[u32; 2], ModelError> {
    let page = |row: usize| u32::try_from(row / page_len.max(1)).ok();
    let last = run.row.checked_add(run.len.saturating_sub(1));
    let pages = page(run.row).zip(last.and_then(page));
    let (first, last) =
        pages.ok_or_else(|| ModelError::State(format!("{} rows from row {} on", run.len, run.row)))?;
    Ok([first, last])
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The values of a block that was read.
///
/// # Errors
/// Bytes that are no whole values.
pub(crate) fn to_values(bytes: &[u8]) -> Result<Vec<f32>, ModelError> {
    let (values, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        let reason = format!("{} bytes that a stage gave are no values of f32", bytes.len());
        return Err(ModelError::State(reason));
    }
    Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::StateChange;

    #[test]
    fn an_access_comes_back_as_it_was_and_is_never_read_past_its_end() {
        let run = RowRun { row: 70, len: 3 };
        for access in [
            Access::ReadRows(run),
            Access::WriteRows(run, vec![1, 2, 3]),
            Access::ReadBlock(4),
            Access::WriteBlock(4, vec![0.5, -1.0]),
            Access::ReadCopy(9),
            Access::Done(vec![7; 9]),
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
    fn rows_that_no_machine_has_are_refused() {
        assert_eq!(pages(RowRun { row: 130, len: 4 }, 64).unwrap(), [2, 2]);
        assert!(pages(RowRun { row: usize::MAX, len: 2 }, 64).is_err());
        assert!(to_values(&[1, 2, 3]).is_err());
    }
}
