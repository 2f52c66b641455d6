//! Sixteen groups side by side: value `i` of group `g` is lane `g` of vector `i`; and what weight a value has.

use half::f16;

use crate::simd::{LANES, Simd};

/// Magnitudes that no scale of sixteen bits can hold: a group of them is zero.
pub(super) const TINY: f32 = 1e-10;

/// How much a value counts where nobody says which columns matter.
#[derive(Clone, Copy)]
pub(super) enum Weighting {
    /// As every other.
    Even,
    /// More if it is large: the root of its square and the mean square of its block.
    Size,
}

/// How many of the candidates for a scale are tried.
#[derive(Clone, Copy)]
pub(super) enum Effort {
    /// All.
    Full,
    /// Every third: where columns matter the same, least squares find what lies between. Formats without super-blocks are
    /// written so as fast as weights are read.
    Third,
}

impl Effort {
    /// What the formats without super-blocks take.
    #[inline(always)]
    pub(super) fn for_small_blocks(importance: Option<&[f32]>) -> Effort {
        if importance.is_some() { Effort::Full } else { Effort::Third }
    }

    /// How far candidates are apart.
    #[inline(always)]
    pub(super) fn stride(self) -> usize {
        match self {
            Effort::Full => 1,
            Effort::Third => 3,
        }
    }
}

/// Sixteen groups of `N` values; groups that are not there are zeros of weight zero.
pub(super) struct Panel<S: Simd, const N: usize> {
    /// Values.
    pub x: [S::F; N],
    /// Weights.
    pub w: [S::F; N],
    /// Their products.
    pub wx: [S::F; N],
}

impl<S: Simd, const N: usize> Panel<S, N> {
    /// From consecutive groups; blocks of `block` values have weights of their own. The values are at most `16 * N`.
    #[inline(always)]
    pub(super) fn new(
        s: S,
        values: &[f32],
        importance: Option<&[f32]>,
        block: usize,
        weighting: Weighting,
    ) -> Self {
        // `N` is at most 32.
        let (mut x, mut w) = ([0.0; 32 * LANES], [0.0; 32 * LANES]);
        x[..values.len()].copy_from_slice(values);
        weigh(values, importance, block, weighting, &mut w);
        Panel::weighted(s, &x, &w)
    }

    /// From groups and their weights.
    #[inline(always)]
    pub(super) fn weighted(s: S, x: &[f32; 32 * LANES], w: &[f32; 32 * LANES]) -> Self {
        let (x, w) = (lanes_of_groups::<S, N>(s, x), lanes_of_groups::<S, N>(s, w));
        let mut wx = x;
        for i in 0..N {
            wx[i] = s.mul(w[i], x[i]);
        }
        Panel { x, w, wx }
    }

    /// The sum of the weights of each group.
    #[inline(always)]
    pub(super) fn weight(&self, s: S) -> S::F {
        let mut sum = s.splat(0.0);
        for i in 0..N {
            sum = s.add(sum, self.w[i]);
        }
        sum
    }
}

/// Sixteen runs of `N` consecutive values to lanes.
#[inline(always)]
fn lanes_of_groups<S: Simd, const N: usize>(s: S, values: &[f32; 32 * LANES]) -> [S::F; N] {
    let mut out = [s.splat(0.0); N];
    for part in 0..N / LANES {
        let mut rows = [s.splat(0.0); LANES];
        for g in 0..LANES {
            let mut row = [0.0; LANES];
            row.copy_from_slice(&values[g * N + part * LANES..][..LANES]);
            rows[g] = s.load(&row);
        }
        out[part * LANES..][..LANES].copy_from_slice(&s.transpose(&rows));
    }
    out
}

/// Whole numbers of 0 to 255 in lanes back to bytes, group by group.
#[inline(always)]
pub(super) fn bytes_of_groups<S: Simd, const N: usize>(s: S, codes: &[S::F; N]) -> [[u8; N]; LANES] {
    let mut out = [[0; N]; LANES];
    for part in 0..N / LANES {
        let mut square = [s.splat(0.0); LANES];
        square.copy_from_slice(&codes[part * LANES..][..LANES]);
        let rows = s.transpose(&square);
        for g in 0..LANES {
            let row = s.lanes(rows[g]);
            for i in 0..LANES {
                out[g][part * LANES + i] = row[i] as i32 as u8;
            }
        }
    }
    out
}

/// The weights of values, block by block.
#[inline(always)]
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
            // Relative to their mean, so that no sum of products leaves the range of an f32.
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

/// Lanes rounded to what f16 can hold; what is past its ends (a minimum a little below the least weight) is its end.
#[inline(always)]
pub(super) fn halves<S: Simd>(s: S, values: S::F) -> [f16; LANES] {
    let values = s.max(s.min(values, s.splat(65504.0)), s.splat(-65504.0));
    let (values, mut out) = (s.lanes(values), [f16::ZERO; LANES]);
    for g in 0..LANES {
        out[g] = f16::from_f32(values[g]);
    }
    out
}

/// `1 / a`, or zero where that would be infinite.
#[inline(always)]
pub(super) fn inverse<S: Simd>(s: S, a: S::F) -> S::F {
    let zero = s.splat(0.0);
    s.select_lt(s.splat(1e-30), s.abs(a), s.div(s.splat(1.0), a), zero)
}
