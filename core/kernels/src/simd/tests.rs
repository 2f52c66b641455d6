//! The lanes themselves: exponentials in units of the last place, sums, conversions, small products.

use super::*;
use crate::isa::Isa;

struct Exp<'a>(&'a [f32], &'a mut [f32]);

impl Kernel for Exp<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (x, out) in self.0.as_chunks::<LANES>().0.iter().zip(self.1.as_chunks_mut::<LANES>().0) {
            s.store(out, exp(s, s.load(x)));
        }
    }
}

fn each_isa(test: impl Fn(&Cpu)) {
    for isa in Isa::available() {
        test(&Cpu::with_isa(Some(1), isa).unwrap());
    }
}

#[test]
fn exp_is_within_two_units_in_the_last_place() {
    each_isa(|cpu| {
        let x: Vec<f32> = (0..64_000).map(|i| -86.8 + i as f32 * (175.5 / 64_000.0)).collect();
        let mut out = vec![0.0; x.len()];
        dispatch(cpu, Exp(&x, &mut out));
        for (x, got) in x.iter().zip(&out) {
            let wanted = f64::from(*x).exp();
            let unit = f64::from((wanted as f32).next_up() - wanted as f32);
            assert!(
                (f64::from(*got) - wanted).abs() <= 2.0 * unit,
                "{} exp({x}) = {got}, {wanted}",
                cpu.isa()
            );
        }
        let mut edges = [0.0f32; LANES];
        edges[..8].copy_from_slice(&[
            f32::NEG_INFINITY,
            -1e30,
            -87.5,
            88.8,
            1e30,
            f32::INFINITY,
            f32::NAN,
            0.0,
        ]);
        let mut out = [0.0; LANES];
        dispatch(cpu, Exp(&edges, &mut out));
        assert_eq!(out[..3], [0.0; 3]);
        assert_eq!(out[3..6], [f32::INFINITY; 3]);
        assert!(out[6].is_nan());
        assert_eq!(out[7..9], [1.0; 2]);
    });
}

struct Sums;

impl Kernel for Sums {
    type Output = ([f32; LANES], f32, [f32; LANES]);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let mut accs = [s.acc_zero(); LANES];
        let lanes: [f32; LANES] = std::array::from_fn(|i| (i + 1) as f32);
        for (i, acc) in accs.iter_mut().enumerate() {
            *acc = s.acc_fma(s.load(&lanes), s.splat((i * i + 1) as f32), *acc);
        }
        (s.acc_sums(&accs), s.sum(s.load(&lanes)), s.lanes(s.swap_pairs(s.load(&lanes))))
    }
}

#[test]
fn sums_land_in_their_own_lane() {
    each_isa(|cpu| {
        let (sums, sum, swapped) = dispatch(cpu, Sums);
        assert_eq!(sum, 136.0);
        for i in 0..LANES {
            assert_eq!(sums[i], 136.0 * (i * i + 1) as f32, "{} {i}", cpu.isa());
            assert_eq!(swapped[i], ((i ^ 1) + 1) as f32);
        }
    });
}

struct Square<'a>(&'a mut [[f32; LANES]; LANES]);

impl Kernel for Square<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let rows = s.transpose(&self.0.map(|row| s.load(&row)));
        for (row, out) in rows.iter().zip(self.0.iter_mut()) {
            s.store(out, *row);
        }
        s.largest(rows[3])
    }
}

#[test]
fn transposing_exchanges_rows_and_columns() {
    each_isa(|cpu| {
        let mut square = [[0.0; LANES]; LANES];
        for (i, value) in square.as_flattened_mut().iter_mut().enumerate() {
            *value = i as f32;
        }
        let largest = dispatch(cpu, Square(&mut square));
        for i in 0..LANES {
            for j in 0..LANES {
                assert_eq!(square[i][j], (16 * j + i) as f32, "{} {i} {j}", cpu.isa());
            }
        }
        assert_eq!(largest, 243.0);
    });
}

struct Halves<'a>(&'a [u16], &'a mut [f32]);

impl Kernel for Halves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (x, out) in self.0.as_chunks::<LANES>().0.iter().zip(self.1.as_chunks_mut::<LANES>().0) {
            // SAFETY: the reference is to sixteen f16.
            s.store(out, unsafe { s.load_f16_ptr(x.as_ptr().cast()) });
        }
    }
}

#[test]
fn every_f16_widens_exactly() {
    each_isa(|cpu| {
        let bits: Vec<u16> = (0..=u16::MAX).collect();
        let mut out = vec![0.0; bits.len()];
        dispatch(cpu, Halves(&bits, &mut out));
        for (bits, got) in bits.iter().zip(&out) {
            let wanted = half::f16::from_bits(*bits).to_f32();
            assert!(
                *got == wanted || (got.is_nan() && wanted.is_nan()),
                "{} {bits:04x} {got} {wanted}",
                cpu.isa()
            );
        }
    });
}

struct Multiply<'a>(&'a Product);

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        // SAFETY: the test makes buffers that fit.
        unsafe { self.0.run(s) }
    }
}

#[test]
fn products_of_odd_sizes_are_right_and_rows_stand_alone() {
    each_isa(|cpu| {
        for (rows, depth, columns) in
            [(1, 1, 16), (5, 7, 32), (6, 64, 64), (7, 64, 80), (13, 3, 144), (12, 0, 16)]
        {
            let a: Vec<f32> = (0..rows * depth).map(|i| (i * 37 % 11) as f32 - 5.0).collect();
            let b: Vec<f32> = (0..depth * columns).map(|i| (i * 53 % 13) as f32 - 6.0).collect();
            let alpha: Vec<f32> = (0..rows).map(|i| i as f32 * 0.5).collect();
            let mut c: Vec<f32> = (0..rows * columns).map(|i| (i % 5) as f32).collect();
            let wanted: Vec<f32> = (0..rows * columns)
                .map(|i| {
                    let (r, v) = (i / columns, i % columns);
                    let dot: f32 = (0..depth).map(|k| a[r * depth + k] * b[k * columns + v]).sum();
                    dot + c[i] * alpha[r]
                })
                .collect();
            let product = Product {
                rows,
                depth,
                columns,
                a: a.as_ptr(),
                a_stride: depth,
                b: b.as_ptr(),
                b_stride: columns,
                c: c.as_mut_ptr(),
                c_stride: columns,
                alpha: alpha.as_ptr(),
            };
            dispatch(cpu, Multiply(&product));
            assert_eq!(c, wanted, "{} {rows} {depth} {columns}", cpu.isa());
        }
    });
}
