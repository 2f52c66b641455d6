//! The lanes themselves: exponentials in units of the last place, sums, conversions, small products.

use super::*;
use crate::isa::Isa;
use menagerie_random::SplitMix64;

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

struct Lanes<'a>(&'a [f32; 4 * LANES]);

impl Kernel for Lanes<'_> {
    type Output = ([f32; LANES], [[f32; LANES]; 4], [[f32; LANES]; 4]);

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let (rows, _) = self.0.as_chunks::<LANES>();
        let rows = [s.load(&rows[0]), s.load(&rows[1]), s.load(&rows[2]), s.load(&rows[3])];
        let (quarters, inside) = (s.transpose_quarters(rows), s.transpose_in_quarters(rows));
        (s.lanes(s.swap_pairs(rows[0])), quarters.map(|row| s.lanes(row)), inside.map(|row| s.lanes(row)))
    }
}

#[test]
fn lanes_and_quarters_change_places() {
    let rows: [f32; 4 * LANES] = std::array::from_fn(|i| i as f32);
    each_isa(|cpu| {
        let (swapped, quarters, inside) = dispatch(cpu, Lanes(&rows));
        for lane in 0..LANES {
            assert_eq!(swapped[lane], (lane ^ 1) as f32, "{}", cpu.isa());
            let (quarter, place) = (lane / 4, lane % 4);
            for row in 0..4 {
                assert_eq!(quarters[row][lane], (16 * quarter + 4 * row + place) as f32, "{}", cpu.isa());
                assert_eq!(inside[row][lane], (16 * place + 4 * quarter + row) as f32, "{}", cpu.isa());
            }
        }
    });
}

struct Quarters<'a>(&'a [u16; 4 * LANES], &'a [i8; 4 * LANES], &'a [f32; 4]);

impl Kernel for Quarters<'_> {
    type Output = [[f32; LANES]; 10];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let Quarters(halves, bytes, four) = self;
        // SAFETY: four times sixteen f16, sixteen bytes, and four floats.
        unsafe {
            let halves_of = [0, 1, 2, 3].map(|row| halves.as_ptr().add(row * LANES).cast::<u8>());
            let bytes_of = [0, 1, 2, 3].map(|row| bytes.as_ptr().add(row * LANES).cast::<u8>());
            let (halves_in, bytes_in) = (s.load_f16_quarters(halves_of), s.load_i8_quarters(bytes_of));
            let spread = s.spread_f16([halves[0], halves[1], halves[2], halves[3]]);
            let all = [halves_in, bytes_in].concat();
            std::array::from_fn(|i| match i {
                8 => s.lanes(spread),
                9 => s.lanes(s.load_quarter_ptr(four.as_ptr())),
                _ => s.lanes(all[i]),
            })
        }
    }
}

#[test]
fn quarters_are_loaded_of_four_rows() {
    let halves = std::array::from_fn(|i| half::f16::from_f32(i as f32 * 0.25 - 7.0).to_bits());
    let bytes = std::array::from_fn(|i| (i as i8).wrapping_mul(37));
    let four = [3.0, -1.0, 0.5, 9.0];
    each_isa(|cpu| {
        let found = dispatch(cpu, Quarters(&halves, &bytes, &four));
        for lane in 0..LANES {
            let (quarter, place) = (lane / 4, lane % 4);
            for m in 0..4 {
                let at = 16 * quarter + 4 * m + place;
                assert_eq!(found[m][lane], at as f32 * 0.25 - 7.0, "{}", cpu.isa());
                assert_eq!(found[4 + m][lane], f32::from(bytes[at]), "{}", cpu.isa());
            }
            assert_eq!(found[8][lane], quarter as f32 * 0.25 - 7.0, "{}", cpu.isa());
            assert_eq!(found[9][lane], four[place], "{}", cpu.isa());
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

struct Multiply<'a>(&'a DenseProduct);

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
            let product = DenseProduct {
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

struct Trees<'a>(&'a [[f32; LANES]; 24]);

impl Kernel for Trees<'_> {
    type Output = [f32; 24];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        self.0.map(|lanes| s.sum(s.load(&lanes)))
    }
}

/// The tree that the documentation of `sum` describes.
fn tree(lanes: &[f32]) -> f32 {
    match lanes {
        [one] => *one,
        _ => {
            let (low, high) = lanes.split_at(lanes.len() / 2);
            tree(&low.iter().zip(high).map(|(a, b)| a + b).collect::<Vec<f32>>())
        }
    }
}

struct Folded<'a>(&'a [[f32; LANES]; 12]);

impl Kernel for Folded<'_> {
    type Output = [[f32; LANES]; 4];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Self::Output {
        let mut rows = [s.splat(0.0); 12];
        let mut each = [[0.0; LANES]; 2];
        for row in 0..12 {
            rows[row] = s.load(&self.0[row]);
            (each[0][row], each[1][row]) = (s.sum(rows[row]), s.largest(rows[row]));
        }
        [s.lanes(s.sums(&rows)), s.lanes(s.largests(&rows)), each[0], each[1]]
    }
}

#[test]
fn vectors_folded_together_give_what_each_gives() {
    let mut rows = [[0.0; LANES]; 12];
    for (i, value) in rows.as_flattened_mut().iter_mut().enumerate() {
        *value = ((i * 7919) % 1009) as f32 / 7.0 - 70.0;
    }
    each_isa(|cpu| {
        let [sums, largest, each_sum, each_largest] = dispatch(cpu, Folded(&rows));
        assert_eq!(sums[..12], each_sum[..12], "{}", cpu.isa());
        assert_eq!(largest[..12], each_largest[..12], "{}", cpu.isa());
    });
}

#[test]
fn sums_follow_one_tree() {
    let vectors: [[f32; LANES]; 24] =
        std::array::from_fn(|i| std::array::from_fn(|j| ((i * 37 + j * 101 + 1) as f32).sqrt().sin() * 1e3));
    let wanted = vectors.map(|lanes| tree(&lanes));
    // The order matters for these numbers.
    assert!(vectors.iter().zip(wanted).any(|(lanes, sum)| lanes.iter().sum::<f32>() != sum));
    each_isa(|cpu| {
        assert_eq!(dispatch(cpu, Trees(&vectors)), wanted, "{}", cpu.isa());
    });
}

#[test]
fn products_are_fused_without_the_instruction() {
    let mut random = SplitMix64::new(1);
    let mut float = |near: Option<f32>| {
        let seed = random.bits();
        match near {
            // Within some bits of a number, so that there is much cancellation.
            Some(near) if seed & 3 == 0 => f32::from_bits(near.to_bits() ^ (seed >> 60) as u32),
            Some(near) if seed & 3 == 1 => {
                near * f32::from_bits(0x3380_0000 ^ (seed >> 40) as u32 & 0xff_ffff)
            }
            _ => f32::from_bits((seed >> 32) as u32),
        }
    };
    let mut twice_rounded = 0;
    for _ in 0..2_000_000 {
        let (a, b) = (float(None), float(None));
        let c = float(Some(-(a * b)));
        let (got, wanted) = (fused(a, b, c), a.mul_add(b, c));
        assert!(got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(), "{a:e} {b:e} {c:e}");
        twice_rounded += i32::from((f64::from(a) * f64::from(b) + f64::from(c)) as f32 != wanted);
    }
    // Numbers that a plain f64 sum gets wrong were among them.
    assert!(twice_rounded > 10);
    for edge in [0.0, -0.0, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45] {
        for other in [0.0, -0.0, 1.0, -1.0, f32::NEG_INFINITY, f32::MAX, 1e-45, f32::NAN] {
            for c in [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, -f32::MAX, 1e-45, 1.0] {
                let (got, wanted) = (fused(edge, other, c), edge.mul_add(other, c));
                assert!(
                    got.to_bits() == wanted.to_bits() || got.is_nan() && wanted.is_nan(),
                    "{edge} {other} {c}"
                );
            }
        }
    }
}
