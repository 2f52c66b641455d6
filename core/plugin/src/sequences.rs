//! [`Sequences`]: whose rows a step has.

use crate::abi;
use crate::error::{Error, Result};
use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

/// The sequences of a step; their rows follow one another and are all rows of the step.
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

/// What is being done with a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its prompt is computed, whole or in parts.
    Prefill,
    /// It is generating.
    Decode,
}

/// A sequence of a step.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    raw: &'a abi::Sequence,
}

/// Which sequence it is: no other one of the process has its id, before or after it. Where a model is in stages, it has one in
/// each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId {
    /// Number of the pool that its states are in.
    pub pool: u64,
    /// Of those of its pool.
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

    /// How many.
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
    /// If there is no such sequence.
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
    /// Which one it is, to know it again in later steps.
    pub fn id(&self) -> SequenceId {
        SequenceId { pool: self.raw.pool, number: self.raw.number }
    }

    /// Its rows in the step.
    pub fn rows(&self) -> Range<usize> {
        let start = self.raw.first_row as usize;
        start..start + self.raw.rows as usize
    }

    /// Tokens of it that came before this step.
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
