//! Softmax over rows.

use crate::cpu::Cpu;
use crate::error::KernelError;
use crate::pointwise::{check_rows, for_rows};
use crate::simd::{Kernel, LANES, Simd, dispatch, exp};

/// `x = exp(x - max) / sum(exp(x - max))` for every row of `width`, in place. A row that holds only minus infinity
/// gives NaN.
///
/// # Errors
/// [`KernelError::Shape`]: `x` is not a whole number of rows.
pub fn softmax_rows(cpu: &Cpu, x: &mut [f32], width: usize) -> Result<(), KernelError> {
    check_rows("softmax_rows: x", x.len(), width)?;
    for_rows(cpu, x, width, &|_, row| dispatch(cpu, SoftmaxRow { row }))
}

struct SoftmaxRow<'a> {
    row: &'a mut [f32],
}

impl Kernel for SoftmaxRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (vectors, rest) = self.row.as_chunks_mut::<LANES>();
        let mut tail = [f32::NEG_INFINITY; LANES];
        tail[..rest.len()].copy_from_slice(rest);
        let mut max = s.load(&tail);
        for vector in vectors.iter() {
            max = s.max(max, s.load(vector));
        }
        let max = s.splat(s.lanes(max).into_iter().fold(f32::NEG_INFINITY, f32::max));
        let mut sum = s.splat(0.0);
        for vector in vectors.iter_mut() {
            let value = exp(s, s.sub(s.load(vector), max));
            sum = s.add(sum, value);
            s.store(vector, value);
        }
        let tail = exp(s, s.sub(s.load(&tail), max));
        let factor = 1.0 / s.sum(s.add(sum, tail));
        for vector in vectors {
            let value = s.mul(s.load(vector), s.splat(factor));
            s.store(vector, value);
        }
        let tail = s.lanes(s.mul(tail, s.splat(factor)));
        rest.copy_from_slice(&tail[..rest.len()]);
    }
}
