//! One row of activations: products directly on the blocks.
//!
//! Two rows of weights are read in turn, half of the task's rows apart: adjacent rows would confuse the hardware
//! prefetcher (measured: half of the memory rate or less). Their partial results are integers; the few f32 sums are
//! computed for several panels or several rows at once.

use std::arch::x86_64::*;

use crate::activations::{ActivationLayout, Int8Rows, LaneScales, Meta};
use crate::blocks::{Format, SUPER};
use crate::isa::{Avx512, avx512};
use crate::matmul::types::{Int8Activations, Kernel, KernelChoice, MatmulJob};
use crate::memory::Scratch;

/// The single row of rounded activations: pointers to whole panels of 256, padded with zeros.
#[derive(Clone, Copy)]
pub(super) struct ActivationPanels {
    /// The values in order.
    pub(super) values: *const i8,
    /// The values in the layout of the format.
    pub(super) ordered: *const i8,
    /// The distance from one of these panels to the next.
    step: usize,
    /// Scales and sums per panel.
    pub(super) meta: *const Meta,
    /// The number of groups of 32 columns.
    pub(super) groups: usize,
}

impl ActivationPanels {
    /// The same from panel `panel` on.
    ///
    /// # Safety
    /// There are so many panels.
    #[inline(always)]
    pub(super) unsafe fn panel(&self, panel: usize) -> ActivationPanels {
        // SAFETY: the promise of the caller; each panel has 256 values, and `step` in the order of the format.
        unsafe {
            ActivationPanels {
                values: self.values.add(panel * SUPER),
                ordered: self.ordered.wrapping_add(panel * self.step),
                step: self.step,
                meta: self.meta.add(panel),
                groups: self.groups - panel * 8,
            }
        }
    }
}

/// The partial results of rows, and the pass over a job that adds them.
pub(super) trait RowSums: Sized {
    /// The scales and sums that it reads broadcast to lanes.
    const SPREADS: &'static [LaneScales] = &[];

    /// Computes a job.
    ///
    /// # Safety
    /// The features of the format are there.
    unsafe fn run<D: GemvFormat<Parts = Self>>(job: &mut MatmulJob<'_, Int8Activations>);
}

/// The products of a format's blocks with a panel, and where they are stored. So each row's f32 sums have the order
/// that `matmul` defines, and rows are still read sequentially.
pub(super) trait GemvFormat {
    /// The block layout.
    type Blocks: Format;
    /// The partial results of rows, and how they are added.
    type Parts: RowSums;
    /// Constants in registers.
    type Constants: Copy;
    /// A further layout of the activations that it reads.
    const ORDER: Option<ActivationLayout>;

    /// The constants.
    ///
    /// # Safety
    /// The processor has AVX-512 VNNI.
    unsafe fn constants() -> Self::Constants;

    /// Multiplies the blocks at `blocks` with the panel `x` and stores the products in place `lane`.
    ///
    /// # Safety
    /// As `constants`; a whole panel of blocks is readable.
    unsafe fn panel(
        blocks: *const u8,
        x: &ActivationPanels,
        constants: &Self::Constants,
        parts: &mut Self::Parts,
        lane: usize,
    );

    /// The same for a row's last panel, if it is not whole: only formats with blocks of fewer columns have such panels.
    ///
    /// # Safety
    /// As `constants`; the blocks of `x.groups` groups, fewer than 8, are readable.
    unsafe fn last(
        blocks: *const u8,
        x: &ActivationPanels,
        constants: &Self::Constants,
        parts: &mut Self::Parts,
        lane: usize,
    ) {
        // SAFETY: there is no such panel.
        unsafe { Self::panel(blocks, x, constants, parts, lane) }
    }
}

/// The kernel for a format.
pub(super) fn choose<D: GemvFormat>(_: Avx512) -> KernelChoice<Int8Activations> {
    // SAFETY: the token is proof of the features; the function is for this format.
    let kernel = unsafe { Kernel::new(D::Blocks::QUANT, gemv::<D>) };
    KernelChoice { kernel: kernel.with_layout(D::ORDER).with_lane_scales(D::Parts::SPREADS), tile: 2 }
}

avx512! {
fn gemv<D: GemvFormat>(job: &mut MatmulJob<'_, Int8Activations>, _: &mut Scratch) {
    // SAFETY: the features are this function's own.
    unsafe { D::Parts::run::<D>(job) }
}
}

pub(super) fn row_of(x: &Int8Rows, order: Option<ActivationLayout>) -> ActivationPanels {
    ActivationPanels {
        values: x.all_values().as_ptr(),
        ordered: order.map_or(&[][..], |order| x.arranged(order)).as_ptr(),
        step: order.map_or(0, ActivationLayout::panel),
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
