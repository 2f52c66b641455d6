//! One row of activations, or few: products directly on the blocks.
//!
//! Two rows of weights are read in turn, half of the task's rows apart: adjacent rows would confuse the hardware
//! prefetcher. Each block is unpacked once and multiplied with all rows of activations. The partial results of eight rows
//! of weights are then added with these rows in the lanes of vectors.

use std::arch::x86_64::*;

use super::gemv_lanes::PanelSums;
use crate::activations::{ActivationLayout, Int8Rows, Meta};
use crate::blocks::{Format, SUPER};
use crate::isa::{Avx2, avx2};
use crate::matmul::prefetch::prefetch;
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// One panel of a row of rounded activations, padded with zeros.
#[derive(Clone, Copy)]
pub(super) struct ActivationPanel {
    /// The 256 values in order.
    pub(super) values: *const i8,
    /// The values with the halves of four 32s separated.
    pub(super) halved: *const i8,
    /// Scales and sums.
    pub(super) meta: *const Meta,
    /// The number of groups of 32 columns, 1 to 8.
    pub(super) groups: usize,
}

impl ActivationPanel {
    fn of(x: &Int8Rows, panel: usize, row: usize) -> ActivationPanel {
        let at = (panel * x.rows() + row) * SUPER;
        ActivationPanel {
            values: x.values(panel, row).as_ptr(),
            halved: x.arranged(ActivationLayout::Halved)[at..at + SUPER].as_ptr(),
            meta: x.meta(panel, row),
            groups: (x.cols() / 32 - panel * 8).min(8),
        }
    }
}

/// The rows of weights of a job that share the lanes of vectors: as many from its first half as from its second.
#[derive(Clone, Copy)]
struct LaneRows {
    /// The first row of each half.
    halves: [usize; 2],
    /// How many rows of each half there are, 0 to 4; the first half has at least as many as the second.
    counts: [usize; 2],
}

impl LaneRows {
    /// All rows of a job, eight at a time.
    fn of(rows: usize) -> impl Iterator<Item = LaneRows> {
        let far = rows.div_ceil(2);
        (0..far).step_by(4).map(move |first| LaneRows {
            halves: [first, far + first],
            counts: [(far - first).min(4), (rows - far).saturating_sub(first).min(4)],
        })
    }

    /// The `i`th rows of both halves; if the second half has no such row, the first's again.
    fn rows(&self, i: usize) -> [usize; 2] {
        [self.halves[0] + i, self.halves[usize::from(i < self.counts[1])] + i]
    }

    /// Stores the results of the lanes for a token.
    fn store(&self, job: &mut MatmulJob<'_, Int8Activations>, token: usize, values: &[f32; 8]) {
        for half in 0..2 {
            job.out.store(token, self.halves[half], &values[4 * half..4 * half + self.counts[half]]);
        }
    }
}

/// The two passes over a panel: computing the partial results of the rows one after the other, and adding them with the
/// rows in the lanes of vectors. So each row's f32 sums have the order that `matmul` defines, and rows are still read
/// sequentially.
pub(super) trait Avx2GemvFormat: Format {
    /// The partial results of eight rows of weights for a panel of a row of activations.
    type Parts: PanelSums;

    /// Multiplies the blocks at `blocks` with a panel of `T` rows of activations, as row `lane`. What belongs to the
    /// weights alone, as their scales, is stored in the first of the parts.
    ///
    /// # Safety
    /// The processor has AVX2, FMA and F16C; the blocks of `x[0].groups` groups are readable, and so are the panels.
    unsafe fn panel<const T: usize>(
        blocks: *const u8,
        x: &[ActivationPanel; T],
        parts: &mut [Self::Parts; T],
        lane: usize,
    );
}

/// The kernel for a format.
pub(super) fn choose<F: Avx2GemvFormat>(_: Avx2) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the features; the function is for this format.
    let kernel = unsafe { Kernel::new(F::QUANT, gemv::<F>) };
    KernelChoice { kernel: kernel.with_layout(Some(ActivationLayout::Halved)), tile: 8 }
}

/// The bytes of pending partial results: half of a first-level cache.
const WAITING: usize = 16 << 10;
/// The most rows of activations that an unpacked block is multiplied with.
pub(super) const TOGETHER: usize = 4;

avx2! {
fn gemv<F: Avx2GemvFormat>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    let tokens = job.tokens.len();
    for first in (0..tokens).step_by(TOGETHER) {
        match tokens - first {
            1 => together::<F, 1>(job, first, scratch),
            2 => together::<F, 2>(job, first, scratch),
            3 => together::<F, 3>(job, first, scratch),
            _ => together::<F, TOGETHER>(job, first, scratch),
        }
    }
}
}

avx2! {
/// The products with the `T` tokens from `first` on.
fn together<F: Avx2GemvFormat, const T: usize>(
    job: &mut MatmulJob<'_, Int8Activations>,
    first: usize,
    scratch: &mut Scratch,
) {
    let w = job.w;
    let panels = job.x.panels();
    let chunk = (WAITING / size_of::<[F::Parts; T]>()).clamp(1, panels.max(1));
    let (parts_bytes, inputs_bytes) = (chunk * size_of::<[F::Parts; T]>(), panels * size_of::<[ActivationPanel; T]>());
    let (parts, inputs) = scratch.bytes(parts_bytes + inputs_bytes).split_at_mut(parts_bytes);
    let parts = parts.as_mut_ptr().cast::<[F::Parts; T]>();
    let inputs = inputs.as_mut_ptr().cast::<[ActivationPanel; T]>();
    for panel in 0..panels {
        let of = |t: usize| ActivationPanel::of(job.x, panel, job.tokens.row(first + t));
        // SAFETY: the scratch is aligned to 64 bytes, the parts before have a size that is a multiple of 32, and there is
        // room for all panels.
        unsafe { inputs.add(panel).write(std::array::from_fn(of)) };
    }
    let panel_bytes = SUPER / F::LEN * F::BYTES;
    for lanes in LaneRows::of(w.rows()) {
        let mut sums = [_mm256_setzero_ps(); T];
        for start in (0..panels).step_by(chunk) {
            let end = (start + chunk).min(panels);
            for i in 0..lanes.counts[0] {
                let rows = lanes.rows(i).map(|row| w.row(row).as_ptr());
                for panel in start..end {
                    // SAFETY: the rows have whole blocks for all columns (`Matrix::new`), the activations have as many
                    // columns (checked by `matmul`), padded to whole panels, of which the inputs were written above; the
                    // scratch is aligned and holds `chunk` times the parts, all of whose bits are valid.
                    unsafe {
                        let (x, parts) = (&*inputs.add(panel), &mut *parts.add(panel - start));
                        for (half, row) in rows.into_iter().enumerate() {
                            let blocks = row.add(panel * panel_bytes);
                            prefetch(blocks, panel_bytes);
                            F::panel(blocks, x, parts, i + 4 * half);
                        }
                    }
                }
            }
            for panel in start..end {
                // SAFETY: as above; lanes without a row are not stored below.
                unsafe { F::Parts::add(&*parts.add(panel - start), &*inputs.add(panel), &mut sums) };
            }
        }
        for (t, sums) in sums.into_iter().enumerate() {
            let mut values = [0f32; 8];
            // SAFETY: room for eight floats.
            unsafe { _mm256_storeu_ps(values.as_mut_ptr(), sums) };
            lanes.store(job, first + t, &values);
        }
    }
}
}

avx2! {
/// 32 bytes at `p`.
///
/// # Safety
/// They are readable.
#[inline]
pub(super) unsafe fn load<P>(p: *const P) -> __m256i {
    // SAFETY: the promise of the caller.
    unsafe { _mm256_loadu_si256(p.cast()) }
}
}

avx2! {
/// 16 bytes at `low` and 16 at `high`.
///
/// # Safety
/// They are readable.
#[inline]
pub(super) unsafe fn load_two(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the promise of the caller.
    unsafe { _mm256_loadu2_m128i(high.cast(), low.cast()) }
}
}

avx2! {
/// The f16 of these bits, as float.
#[inline]
pub(super) fn float(bits: u16) -> f32 {
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
}
}

avx2! {
/// The f16 at `p`, as float.
///
/// # Safety
/// Two readable bytes.
#[inline]
pub(super) unsafe fn half(p: *const u8) -> f32 {
    // SAFETY: the promise of the caller.
    float(unsafe { p.cast::<u16>().read_unaligned() })
}
}

/// A table of `N` entries for a load of 32 bytes.
#[repr(C, align(32))]
pub(super) struct ByteTable<const N: usize>(pub(super) [[u8; 32]; N]);

/// Entry `n` of eight: bytes `width * n` and the next one, sixteen times. As a shuffle it broadcasts the `n`th 16-bit
/// number (`width` 2) or the lower half of the `n`th dword (4) of each 128 bits.
pub(super) const fn words(width: u8) -> ByteTable<8> {
    let mut out = [[0; 32]; 8];
    let mut n = 0;
    while n < 8 {
        let mut i = 0;
        while i < 32 {
            out[n][i] = (width * n as u8 + i as u8 % 2) & 15;
            i += 1;
        }
        n += 1;
    }
    ByteTable(out)
}

/// Spreads 16-bit numbers.
pub(super) static WORDS: ByteTable<8> = words(2);

avx2! {
/// The `n`th 16-bit number of each 128 bits, eight times.
#[inline]
pub(super) fn spread(scales: __m256i, n: usize) -> __m256i {
    // SAFETY: 32 bytes.
    _mm256_shuffle_epi8(scales, unsafe { load(WORDS.0[n].as_ptr()) })
}
}

avx2! {
/// Adds the products of 32 weights of at least 0 with the values `at` of each panel, times `scales`.
///
/// # Safety
/// The panels are readable.
#[inline]
pub(super) unsafe fn add_products<const T: usize>(
    totals: &mut [__m256i; T],
    q: __m256i,
    (x, at): (&[ActivationPanel; T], usize),
    scales: __m256i,
) {
    for (total, x) in totals.iter_mut().zip(x) {
        // SAFETY: the promise of the caller.
        let pairs = _mm256_maddubs_epi16(q, unsafe { load(x.values.add(at)) });
        *total = _mm256_add_epi32(*total, _mm256_madd_epi16(pairs, scales));
    }
}
}
