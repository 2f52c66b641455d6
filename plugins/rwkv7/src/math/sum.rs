//! Sums over a row in an order that does not depend on the width of vectors.

/// Partial sums of a row.
pub(super) const LANES: usize = 16;

/// The partial sums added up, halves onto halves.
#[inline(always)]
pub(super) fn total(mut lanes: [f32; LANES]) -> f32 {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            lanes[lane] += lanes[lane + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// `sum_i f(x_i, y_i)`.
#[inline(always)]
pub(super) fn sum(x: &[f32], y: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0; LANES];
    let (xs, ys) = (x.chunks_exact(LANES), y.chunks_exact(LANES));
    let rest = xs.remainder().iter().zip(ys.remainder());
    for (x, y) in xs.zip(ys) {
        for lane in 0..LANES {
            lanes[lane] += f(x[lane], y[lane]);
        }
    }
    lanes.iter_mut().zip(rest).for_each(|(lane, (x, y))| *lane += f(*x, *y));
    total(lanes)
}
