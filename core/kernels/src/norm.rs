//! RMS and layer norm over rows; sums in f32 lanes in a fixed order.

#![allow(
    clippy::needless_range_loop,
    reason = "loops over registers of constant number read better by index"
)]

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::pointwise::{check_rows, for_rows, load_part, store_part};
use crate::simd::{Kernel, LANES, Simd, dispatch};

/// Root mean square norm (Zhang and Sennrich 2019): `out = x / sqrt(mean(x^2) + eps) * weight`, per row of
/// `width`.
///
/// # Errors
/// [`KernelError::Shape`]: lengths that do not fit.
pub fn rms_norm(
    cpu: &Cpu,
    x: &[f32],
    weight: Option<&[f32]>,
    eps: f32,
    width: usize,
    out: &mut [f32],
) -> Result<(), KernelError> {
    check_rows("rms_norm: x", x.len(), width)?;
    check_len("rms_norm: out", out.len(), x.len())?;
    check_weight("rms_norm: weight", weight, width)?;
    for_rows(cpu, out, width, &|index, out| {
        let row = &x[index * width..][..width];
        dispatch(cpu, RmsRow { row, weight, eps, out });
    })
}

/// The learned parts of a layer norm, each as long as a row, and its epsilon.
#[derive(Debug, Clone, Copy)]
pub struct LayerNorm<'a> {
    /// Factor per element; absent = 1.
    pub weight: Option<&'a [f32]>,
    /// Addend per element; absent = 0.
    pub bias: Option<&'a [f32]>,
    /// Added to the variance.
    pub eps: f32,
}

/// Layer norm (Ba et al. 2016): `out = (x - mean) / sqrt(variance + eps) * weight + bias`, per row of `width`; the
/// variance is computed in a second pass.
///
/// # Errors
/// [`KernelError::Shape`]: lengths that do not fit.
pub fn layer_norm(
    cpu: &Cpu,
    norm: &LayerNorm,
    x: &[f32],
    width: usize,
    out: &mut [f32],
) -> Result<(), KernelError> {
    check_rows("layer_norm: x", x.len(), width)?;
    check_len("layer_norm: out", out.len(), x.len())?;
    check_weight("layer_norm: weight", norm.weight, width)?;
    check_weight("layer_norm: bias", norm.bias, width)?;
    for_rows(cpu, out, width, &|index, out| {
        let row = &x[index * width..][..width];
        dispatch(cpu, LayerRow { row, norm, out });
    })
}

fn check_weight(what: &'static str, weight: Option<&[f32]>, width: usize) -> Result<(), KernelError> {
    weight.map_or(Ok(()), |weight| check_len(what, weight.len(), width))
}

struct RmsRow<'a> {
    row: &'a [f32],
    weight: Option<&'a [f32]>,
    eps: f32,
    out: &'a mut [f32],
}

impl Kernel for RmsRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let squares = sum_of_squares(s, self.row, 0.0);
        let factor = 1.0 / (squares / self.out.len() as f32 + self.eps).sqrt();
        affine(s, self.row, Affine { shift: 0.0, factor, weight: self.weight, bias: None }, self.out);
    }
}

struct LayerRow<'a> {
    row: &'a [f32],
    norm: &'a LayerNorm<'a>,
    out: &'a mut [f32],
}

impl Kernel for LayerRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let count = self.row.len() as f32;
        let mean = sum(s, self.row) / count;
        let variance = sum_of_squares(s, self.row, mean) / count;
        let factor = 1.0 / (variance + self.norm.eps).sqrt();
        let affine_parts = Affine { shift: mean, factor, weight: self.norm.weight, bias: self.norm.bias };
        affine(s, self.row, affine_parts, self.out);
    }
}

/// The sum of a row.
#[inline(always)]
fn sum<S: Simd>(s: S, row: &[f32]) -> f32 {
    fold::<S, false>(s, row, 0.0)
}

/// The sum of `(x - shift)^2` over a row.
#[inline(always)]
fn sum_of_squares<S: Simd>(s: S, row: &[f32], shift: f32) -> f32 {
    fold::<S, true>(s, row, shift)
}

/// Four running sums that take the vectors in turn and are added pairwise.
#[inline(always)]
fn fold<S: Simd, const SQUARE: bool>(s: S, row: &[f32], shift: f32) -> f32 {
    let shifts = s.splat(shift);
    let mut sums = [s.splat(0.0); 4];
    let (quads, rest) = row.as_chunks::<{ 4 * LANES }>();
    for quad in quads {
        let (vectors, _) = quad.as_chunks::<LANES>();
        for i in 0..4 {
            sums[i] = step::<S, SQUARE>(s, s.load(&vectors[i]), shifts, sums[i]);
        }
    }
    let (vectors, rest) = rest.as_chunks::<LANES>();
    for vector in vectors {
        sums[0] = step::<S, SQUARE>(s, s.load(vector), shifts, sums[0]);
    }
    if !rest.is_empty() {
        // The lanes past the end of the row hold values that add nothing.
        let mut full = [shift; LANES];
        full[..rest.len()].copy_from_slice(rest);
        sums[1] = step::<S, SQUARE>(s, s.load(&full), shifts, sums[1]);
    }
    s.sum(s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3])))
}

/// `sum + value`, or `sum + (value - shift)^2`.
#[inline(always)]
fn step<S: Simd, const SQUARE: bool>(s: S, value: S::F, shift: S::F, sum: S::F) -> S::F {
    if SQUARE {
        let value = s.sub(value, shift);
        return s.fma(value, value, sum);
    }
    s.add(sum, value)
}

/// The operation on every element once the row's statistics are known.
struct Affine<'a> {
    shift: f32,
    factor: f32,
    weight: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
}

/// `out = (row - shift) * factor * weight + bias`. All have the same length.
#[inline(always)]
fn affine<S: Simd>(s: S, row: &[f32], parts: Affine, out: &mut [f32]) {
    let (shift, factor) = (s.splat(parts.shift), s.splat(parts.factor));
    let (vectors, rest) = out.as_chunks_mut::<LANES>();
    let done = vectors.len() * LANES;
    for (index, vector) in vectors.iter_mut().enumerate() {
        let value = s.load(&row.as_chunks::<LANES>().0[index]);
        let mut value = s.mul(s.sub(value, shift), factor);
        if let Some(weight) = parts.weight {
            value = s.mul(value, s.load(&weight.as_chunks::<LANES>().0[index]));
        }
        if let Some(bias) = parts.bias {
            value = s.add(value, s.load(&bias.as_chunks::<LANES>().0[index]));
        }
        s.store(vector, value);
    }
    if !rest.is_empty() {
        let value = load_part(s, &row[done..]);
        let mut value = s.mul(s.sub(value, shift), factor);
        if let Some(weight) = parts.weight {
            value = s.mul(value, load_part(s, &weight[done..]));
        }
        if let Some(bias) = parts.bias {
            value = s.add(value, load_part(s, &bias[done..]));
        }
        store_part(s, rest, value);
    }
}
