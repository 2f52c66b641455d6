//! [`Split`]: arrays that are split into disjoint parts, so that threads can write them in parallel.

use crate::error::{Error, Result};
use crate::rows::RowsMut;
use crate::sequences::Sequences;

/// An array that is split into disjoint parts: slices by [`Chunks::of`], rows by [`RowsMut::chunks`] and
/// [`RowsMut::tiles`], states by [`States::chunks`](crate::States::chunks). A part of a tuple has a part of each element.
///
/// # Safety
/// Parts of different numbers do not overlap.
pub unsafe trait Split: Sync {
    /// A part.
    type Part;

    /// Number of parts.
    ///
    /// # Errors
    /// A tuple whose elements have different numbers of parts.
    fn parts(&self) -> Result<usize>;

    /// A part.
    ///
    /// # Safety
    /// `index` is below [`Split::parts`]; no part is taken twice.
    unsafe fn part(&self, index: usize) -> Self::Part;
}

/// Rows in parts of so many rows each; of [`RowsMut::chunks`].
#[derive(Debug)]
pub struct Chunks<'a> {
    rows: RowsMut<'a>,
    size: usize,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(rows: RowsMut<'a>, size: usize) -> Chunks<'a> {
        assert!(size > 0, "parts must have at least one row");
        Chunks { rows, size }
    }

    /// A slice in parts of `size` elements, each a [`RowsMut`] of one row.
    ///
    /// # Errors
    /// A length that is not a multiple of `size`.
    pub fn of(data: &'a mut [f32], size: usize) -> Result<Chunks<'a>> {
        Ok(Chunks { rows: RowsMut::new(data, size)?, size: 1 })
    }
}

// SAFETY: part i has the rows `i * size..(i + 1) * size`.
unsafe impl<'a> Split for Chunks<'a> {
    type Part = RowsMut<'a>;

    fn parts(&self) -> Result<usize> {
        Ok(self.rows.rows().div_ceil(self.size))
    }

    unsafe fn part(&self, index: usize) -> RowsMut<'a> {
        let start = index * self.size;
        let rows = start..(start + self.size).min(self.rows.rows());
        // SAFETY: inside; no part is taken twice, and they do not overlap.
        unsafe { self.rows.part(rows, 0..self.rows.cols()) }
    }
}

/// Rows in parts of a sequence's rows and some columns each; of [`RowsMut::tiles`].
#[derive(Debug)]
pub struct Tiles<'a> {
    rows: RowsMut<'a>,
    sequences: Sequences<'a>,
    width: usize,
    across: usize,
}

impl<'a> Tiles<'a> {
    pub(crate) fn new(rows: RowsMut<'a>, sequences: &Sequences<'a>, width: usize) -> Result<Tiles<'a>> {
        if width == 0 || rows.cols() % width != 0 {
            return Err(Error::new(format!("{} columns cannot be split into parts of {width}", rows.cols())));
        }
        if sequences.rows() != rows.rows() {
            let (have, want) = (rows.rows(), sequences.rows());
            return Err(Error::new(format!("expected the {want} rows of the step, found {have}")));
        }
        let across = rows.cols() / width;
        Ok(Tiles { rows, sequences: *sequences, width, across })
    }
}

// SAFETY: sequences share no rows (checked when the call began), and columns `c * width..(c + 1) * width` no elements.
unsafe impl<'a> Split for Tiles<'a> {
    type Part = RowsMut<'a>;

    fn parts(&self) -> Result<usize> {
        Ok(self.sequences.len() * self.across)
    }

    unsafe fn part(&self, index: usize) -> RowsMut<'a> {
        let start = index % self.across * self.width;
        let rows = self.sequences.get(index / self.across).rows();
        // SAFETY: inside; no part is taken twice, and they do not overlap.
        unsafe { self.rows.part(rows, start..start + self.width) }
    }
}

macro_rules! split_tuple {
    ($($name:ident $index:tt),+) => {
        // SAFETY: parts of different numbers of each do not overlap, and each is borrowed exclusively.
        unsafe impl<$($name: Split),+> Split for ($($name,)+) {
            type Part = ($($name::Part,)+);

            fn parts(&self) -> Result<usize> {
                let counts = [$(self.$index.parts()?),+];
                match counts.iter().all(|count| *count == counts[0]) {
                    true => Ok(counts[0]),
                    false => Err(Error::new(format!("the split arrays have different numbers of parts: {counts:?}"))),
                }
            }

            unsafe fn part(&self, index: usize) -> Self::Part {
                // SAFETY: the caller's promise.
                unsafe { ($(self.$index.part(index),)+) }
            }
        }
    };
}

split_tuple!(A 0, B 1);
split_tuple!(A 0, B 1, C 2);
split_tuple!(A 0, B 1, C 2, D 3);
