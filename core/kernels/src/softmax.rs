//! Softmax over rows.

use crate::cpu::Cpu;
use crate::elementwise::{check_rows, for_rows};
use crate::error::KernelError;
use crate::simd::{Kernel, LANES, Simd, dispatch, exp};

/// `x = exp(x - max) / sum(exp(x - max))` for every row of `width`, in place. A row of only minus infinity gives
/// not-a-number. Error: `x` is not whole rows.
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
        let mut most = s.load(&tail);
        for vector in vectors.iter() {
            most = s.max(most, s.load(vector));
        }
        let most = s.splat(s.lanes(most).into_iter().fold(f32::NEG_INFINITY, f32::max));
        let mut sum = s.splat(0.0);
        for vector in vectors.iter_mut() {
            let value = exp(s, s.sub(s.load(vector), most));
            sum = s.add(sum, value);
            s.store(vector, value);
        }
        let tail = exp(s, s.sub(s.load(&tail), most));
        let factor = 1.0 / s.sum(s.add(sum, tail));
        for vector in vectors {
            let value = s.mul(s.load(vector), s.splat(factor));
            s.store(vector, value);
        }
        let tail = s.lanes(s.mul(tail, s.splat(factor)));
        rest.copy_from_slice(&tail[..rest.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;
    use crate::naive::pointwise;

    #[test]
    fn rows_of_odd_widths_match_f64_on_every_instruction_set() {
        for isa in Isa::available() {
            let cpu = Cpu::with_isa(Some(2), isa).unwrap();
            for width in [1, 2, 15, 16, 17, 64, 100, 1031] {
                let mut x: Vec<f32> =
                    (0..width * 40).map(|i| ((i * 7919 % 1009) as f32 - 500.0) * 0.05).collect();
                x[0] = f32::NEG_INFINITY;
                x[width - 1] = 3.0;
                let mut wanted = x.clone();
                pointwise::softmax_rows(&mut wanted, width);
                softmax_rows(&cpu, &mut x, width).unwrap();
                for (i, (got, wanted)) in x.iter().zip(&wanted).enumerate() {
                    assert!(
                        (got - wanted).abs() <= 1e-6 * wanted + 1e-30,
                        "{isa} {width} {i}: {got} {wanted}"
                    );
                }
            }
        }
    }

    #[test]
    fn broken_rows_are_refused() {
        let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
        assert!(softmax_rows(&cpu, &mut [1.0; 7], 3).is_err());
        assert!(softmax_rows(&cpu, &mut [1.0; 7], 0).is_err());
    }
}
