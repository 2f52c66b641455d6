//! Products with rounded activations for every quantized format, in plain Rust over `Format`.
#![allow(clippy::needless_range_loop, reason = "several arrays are indexed by group")]

use std::marker::PhantomData;

use crate::activations::Meta;
use crate::blocks::{Format, GroupShape, SUPER, WideFormat};
use crate::matmul::types::{Function, Int8Activations, Kernel, KernelChoice, MatmulJob, ProductKind};
use crate::matmul::unpacked::{IntegerScales, Unpacked};
use crate::memory::Scratch;
use crate::simd::fused;

/// Weight rows that are unpacked together.
const ROWS: usize = 4;

/// The kernel for a format with activations of one scale per 32 values.
pub(super) fn narrow<F: Format>(kind: ProductKind) -> KernelChoice<Int8Activations> {
    choose::<PortableNarrow<F>>(kind)
}

/// The kernel for a format with activations of one scale per 256 values.
pub(super) fn wide<F: WideFormat>(kind: ProductKind) -> KernelChoice<Int8Activations> {
    choose::<PortableWide<F>>(kind)
}

fn choose<P: PanelProduct>(kind: ProductKind) -> KernelChoice<Int8Activations> {
    let function: Function<Int8Activations> = match kind {
        ProductKind::Gemv => gemv::<P>,
        ProductKind::FewRows | ProductKind::Gemm => gemm::<P>,
    };
    // SAFETY: plain Rust, for this format.
    KernelChoice { kernel: unsafe { Kernel::new(P::Blocks::QUANT, function) }, tile: ROWS }
}

/// How 256 weights of a row are unpacked and multiplied.
trait PanelProduct {
    type Blocks: Format;
    type Weights: Copy;
    const ZERO: Self::Weights;

    /// Unpacks the blocks of a panel.
    fn unpack(w: &mut Self::Weights, blocks: &[u8]);

    /// The sum so far plus the products of a panel: see the order in `matmul`.
    fn add(sum: f32, w: &Self::Weights, x: &[i8; SUPER], meta: &Meta) -> f32;
}

/// The integer product of a group.
#[inline(always)]
fn whole_dot(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).fold(0i32, |sum, (w, x)| sum.wrapping_add(i32::from(*w) * i32::from(*x)))
}

struct PortableNarrow<F>(PhantomData<F>);

impl<F: Format> PanelProduct for PortableNarrow<F> {
    type Blocks = F;
    type Weights = Unpacked;
    const ZERO: Unpacked = Unpacked::ZERO;

    #[inline(never)]
    fn unpack(w: &mut Unpacked, blocks: &[u8]) {
        w.fill::<F>(blocks);
    }

    #[inline(always)]
    fn add(sum: f32, w: &Unpacked, x: &[i8; SUPER], meta: &Meta) -> f32 {
        add_narrow::<F::Shape>(sum, w, x, meta)
    }
}

/// Adds the product of a panel of a narrow format.
#[inline(never)]
fn add_narrow<S: GroupShape>(sum: f32, w: &Unpacked, x: &[i8; SUPER], meta: &Meta) -> f32 {
    let mut total = 0f32;
    for g in 0..SUPER / S::GROUP {
        let (at, part) = (g * S::GROUP, g * S::GROUP / 32);
        let dot = whole_dot(&w.q[at..at + S::GROUP], &x[at..at + S::GROUP]);
        total = fused(dot as f32, w.scale[g] * meta.d[part], total);
        if S::MIN {
            total = fused(-w.min[g], meta.dsum[part], total);
        }
    }
    sum + total
}

struct PortableWide<F>(PhantomData<F>);

impl<F: WideFormat> PanelProduct for PortableWide<F> {
    type Blocks = F;
    type Weights = (Unpacked, IntegerScales);
    const ZERO: (Unpacked, IntegerScales) = (Unpacked::ZERO, IntegerScales::ZERO);

    #[inline(never)]
    fn unpack((w, whole): &mut (Unpacked, IntegerScales), blocks: &[u8]) {
        w.fill::<F>(blocks);
        *whole = IntegerScales::of::<F>(blocks);
    }

    #[inline(always)]
    fn add(sum: f32, w: &(Unpacked, IntegerScales), x: &[i8; SUPER], meta: &Meta) -> f32 {
        add_wide::<F::Shape>(sum, w, x, meta)
    }
}

/// Adds the product of a panel of a wide format.
#[inline(never)]
fn add_wide<S: GroupShape>(
    sum: f32,
    (w, whole): &(Unpacked, IntegerScales),
    x: &[i8; SUPER],
    meta: &Meta,
) -> f32 {
    let (mut products, mut minima) = (0i32, 0i32);
    for g in 0..SUPER / S::GROUP {
        let at = g * S::GROUP;
        let dot = whole_dot(&w.q[at..at + S::GROUP], &x[at..at + S::GROUP]);
        products = products.wrapping_add(i32::from(whole.scale[g]).wrapping_mul(dot));
        let sum = if S::GROUP == 32 { meta.sum32[g] } else { meta.sum16[g] };
        minima += i32::from(whole.min[g]) * i32::from(sum);
    }
    let sum = fused(products as f32, whole.factors.d * meta.d[0], sum);
    if S::MIN { fused(-(minima as f32), whole.factors.dmin * meta.d[0], sum) } else { sum }
}

/// The bytes of a whole panel of 256 columns.
const fn panel_bytes<F: Format>() -> usize {
    SUPER / F::LEN * F::BYTES
}

fn gemv<P: PanelProduct>(job: &mut MatmulJob<'_, Int8Activations>, _: &mut Scratch) {
    let x = job.x;
    let token = job.tokens.row(0);
    let mut w = P::ZERO;
    for row in 0..job.w.rows() {
        let mut sum = 0f32;
        for (p, blocks) in job.w.row(row).chunks(panel_bytes::<P::Blocks>()).enumerate() {
            P::unpack(&mut w, blocks);
            sum = P::add(sum, &w, x.values(p, token), x.meta(p, token));
        }
        for i in 0..job.tokens.len() {
            job.out.store(i, row, &[sum]);
        }
    }
}

fn gemm<P: PanelProduct>(job: &mut MatmulJob<'_, Int8Activations>, scratch: &mut Scratch) {
    let x = job.x;
    let sums = scratch.floats(ROWS * job.tokens.len()).as_chunks_mut::<ROWS>().0;
    let mut w = [P::ZERO; ROWS];
    for first in (0..job.w.rows()).step_by(ROWS) {
        let rows = ROWS.min(job.w.rows() - first);
        sums.fill([0.0; ROWS]);
        for p in 0..x.panels() {
            for (r, w) in w[..rows].iter_mut().enumerate() {
                let row = job.w.row(first + r);
                let end = ((p + 1) * panel_bytes::<P::Blocks>()).min(row.len());
                P::unpack(w, &row[p * panel_bytes::<P::Blocks>()..end]);
            }
            for (i, sums) in sums.iter_mut().enumerate() {
                let token = job.tokens.row(i);
                let (values, meta) = (x.values(p, token), x.meta(p, token));
                for (w, sum) in w[..rows].iter().zip(sums) {
                    *sum = P::add(*sum, w, values, meta);
                }
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            job.out.store(i, first, &sums[..rows]);
        }
    }
}
