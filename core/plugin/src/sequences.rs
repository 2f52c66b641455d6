//! [`Sequences`]: the sequences of a step.

use crate::abi;
use crate::error::{Error, Result};
use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

/// The sequences of a step. Their rows are consecutive and make up all rows of the step.
#[derive(Clone, Copy, Debug)]
pub struct Sequences<'a> {
    data: *const abi::Sequence,
    len: usize,
    rows: usize,
    borrowed: PhantomData<&'a [abi::Sequence]>,
}

// SAFETY: a shared borrow; positions are only read.
unsafe impl Send for Sequences<'_> {}
// SAFETY: as above.
unsafe impl Sync for Sequences<'_> {}

/// The phase of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Prefill: its prompt is computed, in one or several steps.
    Prefill,
    /// Decode: it generates tokens.
    Decode,
}

/// A sequence of a step.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    raw: &'a abi::Sequence,
}

/// The id of a sequence, unique in the process. In a model that is split into stages, a sequence has an id in each stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId {
    /// Number of the pool of its states.
    pub pool: u64,
    /// Number of the sequence in the pool.
    pub number: u64,
}

impl<'a> Sequences<'a> {
    /// Sequences that cover `rows` rows.
    ///
    /// # Safety
    /// `data` leads to `len` sequences whose positions are there, as the ABI says.
    pub(crate) unsafe fn of(data: *const abi::Sequence, len: usize, rows: usize) -> Result<Sequences<'a>> {
        if data.is_null() && len > 0 {
            return Err(Error::new(format!("the host passed {len} sequences with a null pointer")));
        }
        let sequences = Sequences { data, len, rows, borrowed: PhantomData };
        let mut next = 0u64;
        for (index, raw) in sequences.raw().iter().enumerate() {
            if raw.first_row != next || raw.rows > rows as u64 - next {
                let (first, count) = (raw.first_row, raw.rows);
                return Err(Error::new(format!(
                    "sequence {index}: the host passed {count} rows from row {first} on, but they begin at row {next} and the step has {rows} rows"
                )));
            }
            if raw.rows > 0 && (raw.positions.is_null() || raw.axes == 0) {
                return Err(Error::new(format!("sequence {index}: the host passed no positions")));
            }
            next += raw.rows;
        }
        if next != rows as u64 {
            return Err(Error::new(format!("the host passed {rows} rows, but the sequences have {next}")));
        }
        Ok(sequences)
    }

    fn raw(&self) -> &'a [abi::Sequence] {
        match self.len {
            0 => &[],
            // SAFETY: not null; that there are so many is the promise of who made it.
            len => unsafe { slice::from_raw_parts(self.data, len) },
        }
    }

    /// Number of sequences.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Rows of the step.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A sequence.
    ///
    /// # Panics
    /// The sequence does not exist.
    #[track_caller]
    pub fn get(&self, index: usize) -> Sequence<'a> {
        Sequence { raw: &self.raw()[index] }
    }

    /// The sequences, in order.
    pub fn iter(self) -> impl Iterator<Item = Sequence<'a>> {
        self.raw().iter().map(|raw| Sequence { raw })
    }
}

impl<'a> Sequence<'a> {
    /// Its id, which stays the same in later steps.
    pub fn id(&self) -> SequenceId {
        SequenceId { pool: self.raw.pool, number: self.raw.number }
    }

    /// Its rows in the step.
    pub fn rows(&self) -> Range<usize> {
        let start = self.raw.first_row as usize;
        start..start + self.raw.rows as usize
    }

    /// Number of its tokens before this step.
    pub fn past(&self) -> usize {
        self.raw.past as usize
    }

    /// Positions of its rows, `[rows][axes]`.
    pub fn positions(&self) -> &'a [u32] {
        match self.raw.rows as usize * self.axes() {
            0 => &[],
            // SAFETY: there is one per row and axis, says the ABI; the address was found to be there.
            len => unsafe { slice::from_raw_parts(self.raw.positions, len) },
        }
    }

    /// Numbers of a position: 1 for text.
    pub fn axes(&self) -> usize {
        self.raw.axes as usize
    }

    /// Whether its prompt is computed or it is generating.
    pub fn phase(&self) -> Phase {
        if self.raw.decoding == 0 { Phase::Prefill } else { Phase::Decode }
    }
}
