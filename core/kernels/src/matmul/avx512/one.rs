//! One row of activations: dot products straight on the blocks.
//!
//! Two rows of weights are read in turn, half of the task's rows apart: rows that lie next to each other would
//! confuse the hardware's prefetching (measured: half of the memory rate or less).

use std::arch::x86_64::*;

use crate::activations::{Meta, Quantised};
use crate::blocks::{Format, SUPER};
use crate::isa::Avx512;
use crate::isa::avx512;
use crate::matmul::types::{Choice, Job, Kernel, Rounded};
use crate::memory::Scratch;

/// The single row of rounded activations: pointers to whole panels of 256, padded with zeros.
#[derive(Clone, Copy)]
pub(super) struct Row {
    /// The values in order.
    pub(super) values: *const i8,
    /// The values in the order of the nibbles of Q4_K (wide form only).
    pub(super) paired: *const i8,
    /// The values with the halves of four 32s apart: as the nibbles of four blocks of Q4_0 lie.
    pub(super) halved: *const i8,
    /// -128 times the sum of each four values (narrow form only).
    pub(super) neg4: *const u8,
    /// Scales and sums per panel.
    pub(super) meta: *const Meta,
    /// The number of groups of 32 columns.
    pub(super) groups: usize,
}

impl Row {
    /// The same from panel `panel` on.
    ///
    /// # Safety
    /// There are so many panels.
    #[inline(always)]
    pub(super) unsafe fn panel(&self, panel: usize) -> Row {
        // SAFETY: the promise of the caller; each panel has 256 values, and 256 of the forms that
        // the width has.
        unsafe {
            Row {
                values: self.values.add(panel * SUPER),
                paired: self.paired.wrapping_add(panel * SUPER),
                halved: self.halved.add(panel * SUPER),
                neg4: self.neg4.wrapping_add(panel * SUPER),
                meta: self.meta.add(panel),
                groups: self.groups - panel * 8,
            }
        }
    }
}

/// A format with a dot product of its own.
pub(super) trait RowFormat {
    /// The block layout.
    type Blocks: Format;

    /// The products of two rows of weights with the activations.
    ///
    /// # Safety
    /// The processor has AVX-512 VNNI; both rows have `x.groups` groups of 32 columns, and so has `x`.
    unsafe fn dots(rows: [*const u8; 2], x: &Row) -> [f32; 2];
}

/// The kernel for a format.
pub(super) fn choose<D: RowFormat>(_: Avx512) -> Choice<Rounded> {
    // SAFETY: the token is proof of the features; the function is for this format.
    Choice { kernel: unsafe { Kernel::new(D::Blocks::QUANT, one_row::<D>) }, tile: 2 }
}

avx512! {
fn one_row<D: RowFormat>(job: &mut Job<'_, Rounded>, _: &mut Scratch) {
    let x = row_of(job.x);
    let (w, tokens) = (job.w, job.tokens.len());
    let rows = w.rows();
    let far = rows.div_ceil(2);
    for first in 0..far {
        let second = (first + far).min(rows - 1);
        // SAFETY: both rows have whole blocks for all columns (`Matrix::new`), `x` as many columns (checked by
        // `matmul`), padded to whole panels.
        let dots = unsafe { D::dots([w.row(first).as_ptr(), w.row(second).as_ptr()], &x) };
        for token in 0..tokens {
            job.out.store(token, first, &dots[..1]);
            job.out.store(token, second, &dots[1..]);
        }
    }
}
}

fn row_of(x: &Quantised) -> Row {
    Row {
        values: x.all_values().as_ptr(),
        paired: x.paired().as_ptr(),
        halved: x.halved().as_ptr(),
        neg4: x.neg4().as_ptr(),
        meta: x.all_meta().as_ptr(),
        groups: x.cols() / 32,
    }
}

avx512! {
/// 64 bytes at `p`.
#[inline]
pub(super) unsafe fn load<P>(p: *const P) -> __m512i {
    // SAFETY: the caller promises 64 readable bytes.
    unsafe { _mm512_loadu_si512(p.cast()) }
}
}

avx512! {
/// The sum of four lanes, in a fixed order.
#[inline]
pub(super) fn sum4(v: __m128) -> f32 {
    let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
    _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
}
}

avx512! {
/// The sum of eight lanes, in a fixed order.
#[inline]
pub(super) fn sum8(v: __m256) -> f32 {
    sum4(_mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v)))
}
}

avx512! {
/// The two f16 at `p`, as floats, then both again.
///
/// # Safety
/// Four readable bytes.
#[inline]
pub(super) unsafe fn two_halves(p: *const u8) -> __m128 {
    // SAFETY: the promise of the caller.
    let v = _mm_cvtph_ps(_mm_cvtsi32_si128(unsafe { p.cast::<i32>().read_unaligned() }));
    _mm_movelh_ps(v, v)
}
}

avx512! {
/// The f16 at `p`, as float.
///
/// # Safety
/// Two readable bytes.
#[inline]
pub(super) unsafe fn half(p: *const u8) -> f32 {
    // SAFETY: the promise of the caller.
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(unsafe { p.cast::<u16>().read_unaligned() }))))
}
}
