//! Rows of activations, and the other forms of them that several matrix products share; each is computed at its first
//! use.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod bfloat16;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "what the x86-64 kernels use"))]
mod int8;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "what the AVX-512 kernels use"))]
mod lane_scales;
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "what the x86-64 kernels use"))]
mod layout;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

pub(crate) use bfloat16::BFloat16Rows;
pub(crate) use int8::{Int8Rows, Meta};
pub(crate) use lane_scales::LaneScales;
#[cfg(target_arch = "x86_64")]
pub(crate) use lane_scales::{LANES, panels_together};
pub(crate) use layout::ActivationLayout;

use crate::blocks::{Format, QuantType, with_format};
use crate::error::check_len;
use crate::{Cpu, KernelError};

/// Which of llama.cpp's two 8-bit forms of activations (except for the scales, which stay f32 here).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names are ggml's")]
pub(crate) enum Rounding {
    /// One scale per 32 values, for the formats of 32 (and 64) values.
    Q8_0,
    /// One scale per 256 values, for the formats of 256.
    Q8_K,
}

impl Rounding {
    /// The form of activations for a quantized type.
    pub(crate) fn of(quant: QuantType) -> Rounding {
        with_format!(quant, F => if F::WIDE { Rounding::Q8_K } else { Rounding::Q8_0 })
    }
}

/// The forms of one set of rows that products have requested. It belongs to these values: make a new one
/// (`ActivationCache::default()`) for every new input, and share it between all products of that input.
#[derive(Default)]
pub struct ActivationCache {
    q8_0: OnceLock<Int8Rows>,
    q8_k: OnceLock<Int8Rows>,
    bfloat16: OnceLock<BFloat16Rows>,
    /// The forms of each row as an input of its own.
    alone: OnceLock<Box<[ActivationCache]>>,
}

impl std::fmt::Debug for ActivationCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (q8_0, q8_k) = (self.q8_0.get().is_some(), self.q8_k.get().is_some());
        let bfloat16 = self.bfloat16.get().is_some();
        let mut text = f.debug_struct("ActivationCache");
        text.field("q8_0", &q8_0).field("q8_k", &q8_k).field("bfloat16", &bfloat16).finish()
    }
}

/// Inputs of matrix products: `rows` rows of `cols` values, row-major, with the cache of their other forms.
#[derive(Clone, Copy, Debug)]
pub struct Activations<'a> {
    /// The values, `[rows, cols]`.
    pub values: &'a [f32],
    /// The number of rows (tokens).
    pub rows: usize,
    /// The number of values per row.
    pub cols: usize,
    /// The cache of the other forms.
    pub cache: &'a ActivationCache,
}

impl<'a> Activations<'a> {
    /// The rows in `values`.
    ///
    /// # Errors
    /// [`KernelError::Shape`]: the length of `values` is not `rows * cols`.
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
        let expected = self.rows.checked_mul(self.cols).ok_or_else(|| {
            KernelError::shape("Activations", format!("{} rows of {} values", self.rows, self.cols))
        })?;
        check_len("Activations.values", self.values.len(), expected)
    }

    /// One row of values; empty if there is no such row.
    pub(crate) fn row(&self, row: usize) -> &'a [f32] {
        self.values.get(row * self.cols..(row + 1) * self.cols).unwrap_or(&[])
    }

    /// One row as an input of its own.
    ///
    /// # Errors
    /// [`KernelError::Shape`]: the cache belongs to rows of another shape, or there is no such row.
    pub(crate) fn alone(&self, row: usize) -> Result<Activations<'a>, KernelError> {
        let caches =
            self.cache.alone.get_or_init(|| (0..self.rows).map(|_| ActivationCache::default()).collect());
        self.check_cache((caches.len(), self.cols))?;
        let Some(cache) = caches.get(row) else {
            let detail = format!("row {row} of {}", self.rows);
            return Err(KernelError::shape("Activations", detail));
        };
        Activations::new(self.row(row), 1, self.cols, cache)
    }

    /// The 8-bit form of the rows, computed now if it is not in the cache.
    ///
    /// # Errors
    /// [`KernelError::Shape`]: the cache belongs to rows of another shape. [`KernelError::JobPanicked`].
    pub(crate) fn quantized(&self, cpu: &Cpu, rounding: Rounding) -> Result<&'a Int8Rows, KernelError> {
        let slot = match rounding {
            Rounding::Q8_0 => &self.cache.q8_0,
            Rounding::Q8_K => &self.cache.q8_k,
        };
        // Computed outside the lock, so that no thread waits for the parallel region of another one.
        let made = match slot.get() {
            Some(made) => made,
            None => {
                let made = Int8Rows::new(cpu, self, rounding)?;
                slot.get_or_init(|| made)
            }
        };
        self.check_cache((made.rows(), made.cols()))?;
        Ok(made)
    }

    /// The rows in bfloat16, computed now if they are not in the cache.
    ///
    /// # Errors
    /// As [`Self::quantized`].
    pub(crate) fn bfloat16(&self, cpu: &Cpu) -> Result<&'a BFloat16Rows, KernelError> {
        let made = match self.cache.bfloat16.get() {
            Some(made) => made,
            None => {
                let made = BFloat16Rows::new(cpu, self)?;
                self.cache.bfloat16.get_or_init(|| made)
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
