//! Rows of activations, and their lazily made 8-bit forms that several matrix products share.
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, reason = "what the x86-64 kernels use")
)]

mod aligned;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod halves;
mod quantise;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

pub(crate) use aligned::AlignedBytes;
pub(crate) use halves::Halves;
pub(crate) use quantise::{Meta, Quantised};

use crate::blocks::{BlockType, Format, with_format};
use crate::error::check_len;
use crate::{Cpu, KernelError};

/// Which of the two 8-bit forms: llama.cpp's Q8_0 and Q8_K, apart from the scales, which stay f32 here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// One scale per 32 values, for the 32-wide formats.
    Narrow,
    /// One scale per 256 values, for the formats with blocks of 256.
    Wide,
}

impl Width {
    /// The form that a quantised block type is multiplied with; `None` for the float types.
    pub(crate) fn of(block: BlockType) -> Option<Width> {
        with_format!(block, F => Some(if F::WIDE { Width::Wide } else { Width::Narrow }), float => None)
    }
}

/// The quantised forms of one set of rows, made when first needed. It belongs to one set of values: make a new
/// one (`ActivationCache::default()`) for every new input, share it between all products of that input.
#[derive(Default)]
pub struct ActivationCache {
    narrow: OnceLock<Quantised>,
    wide: OnceLock<Quantised>,
    halves: OnceLock<Halves>,
}

impl std::fmt::Debug for ActivationCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (narrow, wide) = (self.narrow.get().is_some(), self.wide.get().is_some());
        f.debug_struct("ActivationCache").field("narrow", &narrow).field("wide", &wide).finish()
    }
}

/// Inputs of matrix products: `rows` rows of `cols` values, row-major, with the cache of their 8-bit forms.
#[derive(Clone, Copy, Debug)]
pub struct Activations<'a> {
    /// The values, `[rows, cols]`.
    pub values: &'a [f32],
    /// The number of rows (tokens).
    pub rows: usize,
    /// The number of values per row.
    pub cols: usize,
    /// Where the quantised forms are kept.
    pub cache: &'a ActivationCache,
}

impl<'a> Activations<'a> {
    /// The rows in `values`.
    ///
    /// # Errors
    /// `KernelError::Shape` if `values` is not `rows * cols` long.
    pub fn new(
        values: &'a [f32],
        rows: usize,
        cols: usize,
        cache: &'a ActivationCache,
    ) -> Result<Self, KernelError> {
        let x = Activations { values, rows, cols, cache };
        x.check()?;
        Ok(x)
    }

    /// Fails unless `values` is `rows * cols` long (the fields are public).
    pub(crate) fn check(&self) -> Result<(), KernelError> {
        let wanted = self.rows.checked_mul(self.cols).ok_or_else(|| {
            KernelError::shape("Activations", format!("{} rows of {} values", self.rows, self.cols))
        })?;
        check_len("Activations.values", self.values.len(), wanted)
    }

    /// One row of values; empty if there is no such row.
    pub(crate) fn row(&self, row: usize) -> &'a [f32] {
        self.values.get(row * self.cols..(row + 1) * self.cols).unwrap_or(&[])
    }

    /// The 8-bit form of the rows, made now if it is not in the cache.
    ///
    /// # Errors
    /// `KernelError::Shape` if the cache belongs to rows of another shape; those of the pool.
    pub(crate) fn quantised(&self, cpu: &Cpu, width: Width) -> Result<&'a Quantised, KernelError> {
        let slot = match width {
            Width::Narrow => &self.cache.narrow,
            Width::Wide => &self.cache.wide,
        };
        // Made outside the lock, so that no thread waits for another one's parallel region.
        let made = match slot.get() {
            Some(made) => made,
            None => {
                let made = Quantised::new(cpu, self, width)?;
                slot.get_or_init(|| made)
            }
        };
        self.check_cache((made.rows(), made.cols()))?;
        Ok(made)
    }

    /// The rows in bfloat16, made now if they are not in the cache.
    ///
    /// # Errors
    /// As `quantised`.
    pub(crate) fn halves(&self, cpu: &Cpu) -> Result<&'a Halves, KernelError> {
        let made = match self.cache.halves.get() {
            Some(made) => made,
            None => {
                let made = Halves::new(cpu, self)?;
                self.cache.halves.get_or_init(|| made)
            }
        };
        self.check_cache(made.shape())?;
        Ok(made)
    }

    fn check_cache(&self, (rows, cols): (usize, usize)) -> Result<(), KernelError> {
        if (rows, cols) == (self.rows, self.cols) {
            return Ok(());
        }
        Err(KernelError::shape(
            "Activations.cache",
            format!("it holds {rows} rows of {cols} values, the input has {} of {}", self.rows, self.cols),
        ))
    }
}
