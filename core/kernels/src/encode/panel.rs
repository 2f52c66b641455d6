//! Sixteen groups side by side: value `i` of group `g` is lane `g` of vector `i`; and the weight of a value.

use half::f16;

use crate::simd::{Kernel, LANES, Simd};

/// Magnitudes that no 16-bit scale can hold: a group of them becomes zero.
pub(super) const TINY: f32 = 1e-10;

/// The weight of a value without importance.
#[derive(Clone, Copy)]
pub(super) enum Weighting {
    /// As every other.
    Even,
    /// More for a large value: the root of its square and the mean square of its block.
    Size,
}

/// How many of the candidates for a scale are tried.
#[derive(Clone, Copy)]
pub(super) enum Effort {
    /// All.
    Full,
    /// Every third: if all columns have the same weight, least squares find the scales in between. Formats without
    /// super-blocks are then written as fast as weights are read.
    Third,
}

impl Effort {
    /// The candidates for formats without super-blocks.
    #[inline(always)]
    pub(super) fn for_small_blocks(importance: Option<&[f32]>) -> Effort {
        if importance.is_some() { Effort::Full } else { Effort::Third }
    }

    /// The distance between candidates.
    #[inline(always)]
    pub(super) fn stride(self) -> usize {
        match self {
            Effort::Full => 1,
            Effort::Third => 3,
        }
    }
}

/// The most values of a group.
const LONGEST: usize = 32;

/// Value `i` of each of sixteen groups.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Column {
    /// Values.
    pub x: [f32; LANES],
    /// Weights.
    pub w: [f32; LANES],
    /// Their products.
    pub wx: [f32; LANES],
}

/// Sixteen groups of 16 or 32 values; missing groups are zeros with weight zero.
///
/// A search passes over a panel about thirty times. Every pass is a function that takes a panel in memory (`Kernel`),
/// so it is compiled once for each instruction set, and its loop stays a loop.
#[derive(Clone, Copy)]
pub(super) struct Panel {
    columns: [Column; LONGEST],
    group: usize,
}

impl Panel {
    /// From consecutive groups of `group` values, at most sixteen; blocks of `block` values have their own weights.
    #[inline(always)]
    pub(super) fn new<S: Simd>(
        s: S,
        group: usize,
        values: &[f32],
        importance: Option<&[f32]>,
        (block, weighting): (usize, Weighting),
    ) -> Self {
        let (mut x, mut w) = ([0.0; LONGEST * LANES], [0.0; LONGEST * LANES]);
        x[..values.len()].copy_from_slice(values);
        weigh(values, importance, block, weighting, &mut w);
        Panel::weighted(s, group, &x, &w)
    }

    /// From groups of `group` values and their weights.
    #[inline(always)]
    pub(super) fn weighted<S: Simd>(s: S, group: usize, x: &Values, w: &Values) -> Self {
        s.call(GroupsToLanes { group, x, w })
    }

    /// The columns, in order.
    #[inline(always)]
    pub(super) fn columns(&self) -> &[Column] {
        &self.columns[..self.group]
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn columns_mut(&mut self) -> &mut [Column] {
        &mut self.columns[..self.group]
    }

    /// The sum of the weights of each group.
    #[inline(always)]
    pub(super) fn weight<S: Simd>(&self, s: S) -> S::F {
        let mut sum = s.splat(0.0);
        for column in self.columns() {
            sum = s.add(sum, s.load(&column.w));
        }
        sum
    }
}

/// Groups one after the other.
type Values = [f32; LONGEST * LANES];

/// Makes a panel of groups.
struct GroupsToLanes<'a> {
    group: usize,
    x: &'a Values,
    w: &'a Values,
}

impl Kernel for GroupsToLanes<'_> {
    type Output = Panel;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Panel {
        let zero = [0.0; LANES];
        let mut panel =
            Panel { columns: [Column { x: zero, w: zero, wx: zero }; LONGEST], group: self.group };
        for (part, columns) in panel.columns_mut().as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            let (mut x, mut w) = ([s.splat(0.0); LANES], [s.splat(0.0); LANES]);
            for g in 0..LANES {
                let at = g * self.group + part * LANES;
                x[g] = s.load(&whole(self.x, at));
                w[g] = s.load(&whole(self.w, at));
            }
            let (x, w) = (s.transpose(&x), s.transpose(&w));
            for (i, column) in columns.iter_mut().enumerate() {
                s.store(&mut column.x, x[i]);
                s.store(&mut column.w, w[i]);
                s.store(&mut column.wx, s.mul(w[i], x[i]));
            }
        }
        panel
    }
}

/// The sixteen values from `at` on.
#[inline(always)]
fn whole(values: &Values, at: usize) -> [f32; LANES] {
    let mut out = [0.0; LANES];
    out.copy_from_slice(&values[at..at + LANES]);
    out
}

/// A stored number for each value of a panel, with the same lanes.
pub(super) type Numbers = [[f32; LANES]; LONGEST];
/// Before any are found.
pub(super) const NO_NUMBERS: Numbers = [[0.0; LANES]; LONGEST];

/// Integers of 0 to 255 in lanes back to bytes, group by group.
#[inline(always)]
pub(super) fn bytes_of_groups<S: Simd, const N: usize>(s: S, numbers: &Numbers) -> [[u8; N]; LANES] {
    s.call(LanesToGroups::<N>(numbers))
}

/// Writes the bytes of groups of `N`.
struct LanesToGroups<'a, const N: usize>(&'a Numbers);

impl<const N: usize> Kernel for LanesToGroups<'_, N> {
    type Output = [[u8; N]; LANES];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [[u8; N]; LANES] {
        let mut out = [[0; N]; LANES];
        for part in 0..N / LANES {
            let mut square = [s.splat(0.0); LANES];
            for i in 0..LANES {
                square[i] = s.load(&self.0[part * LANES + i]);
            }
            let rows = s.transpose(&square);
            for g in 0..LANES {
                let row = s.lanes(rows[g]);
                for i in 0..LANES {
                    out[g][part * LANES + i] = byte(row[i]);
                }
            }
        }
        out
    }
}

/// The lowest eight bits of an integer of at most 2^22 in magnitude.
#[inline(always)]
pub(super) fn byte(whole: f32) -> u8 {
    // 1.5 * 2^23: the sum has the number in its lowest bits, in two's complement.
    (whole + 12_582_912.0).to_bits() as u8
}

/// The weights of values, block by block.
#[inline(never)]
pub(super) fn weigh(
    values: &[f32],
    importance: Option<&[f32]>,
    block: usize,
    weighting: Weighting,
    out: &mut [f32],
) {
    for (n, x) in values.chunks_exact(block).enumerate() {
        let out = &mut out[n * block..][..block];
        let importance = importance.map(|all| &all[n * block..][..block]);
        let mean = sum_of(x, |x| x * x) / block as f32;
        match importance.map(|all| (all, sum_of(all, |v| v) / block as f32)) {
            // Relative to their mean, so that no sum of products exceeds the range of an f32.
            Some((all, scale)) if scale > 0.0 => {
                for i in 0..block {
                    out[i] = all[i] / scale * (2.0 * mean + x[i] * x[i]).sqrt();
                }
            }
            _ => match weighting {
                Weighting::Even => out.fill(1.0),
                Weighting::Size => {
                    for i in 0..block {
                        out[i] = (mean + x[i] * x[i]).sqrt();
                    }
                }
            },
        }
    }
}

/// The sum of a function of the values, sixteen running sums at a time; whole sixteens only.
#[inline(always)]
pub(super) fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    for part in values.as_chunks::<LANES>().0 {
        for i in 0..LANES {
            sums[i] += term(part[i]);
        }
    }
    sums.into_iter().sum()
}

/// The largest magnitude of whole sixteens of values.
#[inline(always)]
pub(super) fn largest_of(values: &[f32]) -> f32 {
    let mut largest = [0f32; LANES];
    for part in values.as_chunks::<LANES>().0 {
        for i in 0..LANES {
            largest[i] = largest[i].max(part[i].abs());
        }
    }
    largest.into_iter().fold(0.0, f32::max)
}

/// Lanes rounded to what f16 can hold; values past its range (a minimum slightly below the least weight) become its
/// ends.
#[inline(always)]
pub(super) fn halves<S: Simd>(s: S, values: S::F) -> [f16; LANES] {
    let values = s.max(s.min(values, s.splat(65504.0)), s.splat(-65504.0));
    let (values, mut out) = (s.lanes(values), [f16::ZERO; LANES]);
    for g in 0..LANES {
        out[g] = f16::from_f32(values[g]);
    }
    out
}

/// `1 / a`, or zero if that is infinite.
#[inline(always)]
pub(super) fn inverse<S: Simd>(s: S, a: S::F) -> S::F {
    let zero = s.splat(0.0);
    s.select_lt(s.splat(1e-30), s.abs(a), s.div(s.splat(1.0), a), zero)
}
