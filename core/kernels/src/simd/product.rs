//! A small dense product in f32, the core of attention over many rows.

use super::{LANES, Simd};

/// A small dense product: for `rows` rows, `c[row, ..columns] = c[row, ..] * alpha[row] + sum_k a[row, k] * b[k, ..]`.
/// Strides are in elements; `columns` is a multiple of sixteen. Each element is one chain of additions over
/// ascending `k`, whatever the number of rows: a row's result does not depend on the others.
#[derive(Clone, Copy)]
pub(crate) struct DenseProduct {
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) columns: usize,
    pub(crate) a: *const f32,
    pub(crate) a_stride: usize,
    pub(crate) b: *const f32,
    pub(crate) b_stride: usize,
    pub(crate) c: *mut f32,
    pub(crate) c_stride: usize,
    /// One factor per row; null means zero, that is, a fresh result.
    pub(crate) alpha: *const f32,
}

impl DenseProduct {
    /// Computes it.
    ///
    /// # Safety
    /// `a`, `b`, `c` and `alpha` must be valid for what the fields say is read and written; `c` must not overlap
    /// the others.
    #[inline(always)]
    pub(crate) unsafe fn run<S: Simd>(&self, s: S) {
        // SAFETY: the caller's contract.
        unsafe {
            match S::REGISTERS {
                32 => tiled::<S, 6, 4>(s, self),
                8 => tiled::<S, 6, 1>(s, self),
                _ => tiled::<S, 2, 1>(s, self),
            }
        }
    }
}

/// Runs a product in tiles of up to `R` rows and `C` vectors.
///
/// # Safety
/// All of `a`, `b`, `c` and `alpha` must be valid for what `DenseProduct` says is read and written.
#[inline(always)]
pub(crate) unsafe fn tiled<S: Simd, const R: usize, const C: usize>(s: S, p: &DenseProduct) {
    let mut column = 0;
    while column < p.columns {
        let wide = p.columns - column >= C * LANES;
        let mut row = 0;
        while row < p.rows {
            let left = p.rows - row;
            // SAFETY: the tile lies inside the product; see this function's contract.
            unsafe {
                match (wide, left) {
                    (true, n) if n >= R => tile::<S, R, C>(s, p, row, column),
                    (true, n) if n >= 4 && R > 4 => tile::<S, 4, C>(s, p, row, column),
                    (true, n) if n >= 2 && R > 2 => tile::<S, 2, C>(s, p, row, column),
                    (true, _) => tile::<S, 1, C>(s, p, row, column),
                    (false, n) if n >= R => tile::<S, R, 1>(s, p, row, column),
                    (false, n) if n >= 2 && R > 2 => tile::<S, 2, 1>(s, p, row, column),
                    (false, _) => tile::<S, 1, 1>(s, p, row, column),
                }
            }
            row += match left {
                n if n >= R => R,
                n if n >= 4 && R > 4 && wide => 4,
                n if n >= 2 && R > 2 => 2,
                _ => 1,
            };
        }
        column += if wide { C * LANES } else { LANES };
    }
}

/// One tile of a product, all of its accumulators in registers.
///
/// # Safety
/// Rows `row..row + R` and columns `column..column + 16 C` must lie inside the product, whose pointers must be
/// valid.
#[inline(always)]
unsafe fn tile<S: Simd, const R: usize, const C: usize>(s: S, p: &DenseProduct, row: usize, column: usize) {
    // SAFETY: by the contract every address below is inside what `DenseProduct` describes.
    unsafe {
        let a = p.a.add(row * p.a_stride);
        let mut b = p.b.add(column);
        let c = p.c.add(row * p.c_stride + column);
        let mut sums = [[s.splat(0.0); C]; R];
        if !p.alpha.is_null() {
            for r in 0..R {
                let alpha = s.splat(*p.alpha.add(row + r));
                for v in 0..C {
                    sums[r][v] = s.mul(s.load_ptr(c.add(r * p.c_stride + v * LANES)), alpha);
                }
            }
        }
        for k in 0..p.depth {
            let mut line = [s.splat(0.0); C];
            for v in 0..C {
                line[v] = s.load_ptr(b.add(v * LANES));
            }
            for r in 0..R {
                let factor = s.splat(*a.add(r * p.a_stride + k));
                for v in 0..C {
                    sums[r][v] = s.fma(factor, line[v], sums[r][v]);
                }
            }
            b = b.wrapping_add(p.b_stride);
        }
        for r in 0..R {
            for v in 0..C {
                s.store_ptr(c.add(r * p.c_stride + v * LANES), sums[r][v]);
            }
        }
    }
}
