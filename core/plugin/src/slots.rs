//! [`Slots`]: rows that layers pass to later layers of the same step.

use crate::abi::Tensor;
use crate::descriptor::{ArrayAccess, RowArray, matrix};
use crate::error::{Error, Result};
use crate::rows::{Rows, RowsMut};
use std::marker::PhantomData;

/// The use of a slot by a layer: the first layer that declares it writes it, later ones read it; returned by
/// [`Build::slot`](crate::Build::slot).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// It writes the rows, all of them, in every step.
    Writes(SlotWriter),
    /// It reads them.
    Reads(SlotReader),
}

/// A slot that the layer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWriter {
    pub(crate) number: u32,
    pub(crate) width: usize,
}

/// A slot that the layer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotReader {
    pub(crate) number: u32,
    pub(crate) width: usize,
}

/// The slots of a step.
#[derive(Debug)]
pub struct Slots<'a> {
    data: *const Tensor,
    len: usize,
    rows: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

impl<'a> Slots<'a> {
    /// # Safety
    /// `data` leads to `len` descriptors of rows that do not overlap; nobody else uses those that are not read only.
    pub(crate) unsafe fn of(data: *const Tensor, len: usize, rows: usize) -> Result<Slots<'a>> {
        if data.is_null() && len > 0 {
            return Err(Error::new(format!("the host passed {len} slots with a null pointer")));
        }
        Ok(Slots { data, len, rows, borrowed: PhantomData })
    }

    fn matrix(&self, number: u32, width: usize, access: ArrayAccess) -> Result<RowArray> {
        if number as usize >= self.len {
            return Err(Error::new(format!("slot {number} does not exist; the instance has {}", self.len)));
        }
        // SAFETY: inside the descriptors.
        let found = matrix(unsafe { &*self.data.add(number as usize) }, access, "a slot")?;
        if (found.rows, found.cols) != (self.rows, width) {
            let (rows, cols, wanted) = (found.rows, found.cols, self.rows);
            return Err(Error::new(format!(
                "slot {number}: expected [{wanted}, {width}] from the host, found [{rows}, {cols}]"
            )));
        }
        Ok(found)
    }

    /// The rows that an earlier layer wrote, `[T, width]`.
    ///
    /// # Errors
    /// A slot of another instance.
    pub fn read(&self, slot: &SlotReader) -> Result<Rows<'_>> {
        let matrix = self.matrix(slot.number, slot.width, ArrayAccess::Read)?;
        // SAFETY: checked; borrowed with self.
        Ok(unsafe { Rows::of(matrix) })
    }

    /// The rows for later layers, `[T, width]`, which must be written.
    ///
    /// # Errors
    /// A slot of another instance.
    pub fn write(&mut self, slot: &SlotWriter) -> Result<RowsMut<'_>> {
        let matrix = self.matrix(slot.number, slot.width, ArrayAccess::Write)?;
        // SAFETY: checked; borrowed exclusively with self.
        Ok(unsafe { RowsMut::of(matrix) })
    }
}
