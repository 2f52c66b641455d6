//! Factors and activations at the edges of their types.

use menagerie_kernels::*;
use menagerie_kernels_check::ordered::product::product as ordered;
use menagerie_kernels_check::weights::{random_blocks, set_factors};
use menagerie_random::SplitMix64;

use super::{bits, compare, cpus, product};

/// f16: zeros of both signs, the smallest and the largest subnormal, the smallest normal and the largest number, one in
/// between.
const FACTORS: [u16; 7] = [0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0x2e66];

fn rows_of_activations(cols: usize, random: &mut SplitMix64) -> Vec<f32> {
    let mut rows: Vec<Vec<f32>> = (0..8).map(|_| (0..cols).map(|_| random.signed()).collect()).collect();
    rows[0].fill(0.0);
    rows[1].fill(-0.0);
    // One huge value among ordinary ones, which round to zero next to it.
    rows[2][cols / 2] = f32::MAX;
    rows[3][1] = -1e30;
    rows[4].iter_mut().for_each(|v| *v *= 1e-38);
    // Scales on both sides of the smallest normal number.
    rows[5].iter_mut().enumerate().for_each(|(i, v)| *v *= if i % 64 < 32 { 1.4e-36 } else { 1.6e-36 });
    rows[6].iter_mut().for_each(|v| *v = v.signum());
    rows.concat()
}

/// The products of a matrix with rows in pieces of this size against the expected ones, on every processor.
fn in_pieces<const N: usize>(
    cpus: &[Cpu],
    (w, x): (&Matrix, &[f32]),
    pieces: [usize; N],
    expected: &[u32],
    faults: &mut Vec<String>,
) {
    for cpu in cpus {
        for n in pieces {
            let rows = x.chunks(n * w.cols());
            let found: Vec<u32> = rows.flat_map(|x| product(cpu, Arithmetic::Fast, w, x)).collect();
            let what = || format!("{} {} in {n}s", w.block().name(), cpu.isa());
            compare(&found, expected, what, faults);
        }
    }
}

#[test]
fn factors_and_activations_at_the_edges_follow_the_order() {
    let (mut random, mut faults, cpus) = (SplitMix64::new(15), Vec::new(), cpus(&[1]));
    for &quant in QuantType::ALL {
        let (rows, cols) = (35, 512);
        let mut bytes = random_blocks(quant.into(), rows * cols, &mut random);
        for block in bytes.chunks_exact_mut(quant.block_bytes()) {
            let pick = |random: &mut SplitMix64| FACTORS[random.bits() as usize % FACTORS.len()];
            let two = [pick(&mut random), pick(&mut random)];
            set_factors(quant, block, two);
        }
        let w = Matrix::new(quant.into(), rows, cols, &bytes).unwrap();
        let x = rows_of_activations(cols, &mut random);
        let expected = bits(&ordered(&w, &x).unwrap());
        in_pieces(&cpus, (&w, &x), [1, 2, 8], &expected, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Long runs of extreme values next to activations of one sign: sums of groups that exceed 16 bits, next to some that
/// do not.
#[test]
fn large_sums_follow_the_order() {
    use QuantType::*;
    let (mut random, mut faults, cpus) = (SplitMix64::new(17), Vec::new(), cpus(&[1]));
    for quant in [Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ2_XS, IQ3_XXS, IQ3_S, IQ4_XS] {
        let (rows, cols) = (83, 512);
        let mut bytes = random_blocks(quant.into(), rows * cols, &mut random);
        for block in bytes.chunks_exact_mut(quant.block_bytes()) {
            for run in block.chunks_mut(16) {
                match random.bits() % 3 {
                    0 => run.fill(0),
                    1 => run.fill(0xff),
                    _ => {}
                }
            }
            set_factors(quant, block, [0x2e66; 2]);
        }
        let w = Matrix::new(quant.into(), rows, cols, &bytes).unwrap();
        let mut x: Vec<f32> = (0..9 * cols).map(|_| random.signed()).collect();
        x[..cols].fill(1.0);
        x[cols..2 * cols].fill(-1.0);
        x[4 * cols..5 * cols]
            .iter_mut()
            .enumerate()
            .for_each(|(i, v)| *v = if i % 64 < 32 { 1.0 } else { -1.0 });
        let expected = bits(&ordered(&w, &x).unwrap());
        in_pieces(&cpus, (&w, &x), [1, 3, 9], &expected, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// NaN and infinities behave the same everywhere: NaN in all rows of the results of their token, and in no other
/// token's.
#[test]
fn what_is_not_finite_is_nowhere_a_number() {
    let (mut random, mut faults, cpus) = (SplitMix64::new(16), Vec::new(), cpus(&[1]));
    for &quant in QuantType::ALL {
        let (rows, cols) = (19, 512);
        let bytes = random_blocks(quant.into(), rows * cols, &mut random);
        let w = Matrix::new(quant.into(), rows, cols, &bytes).unwrap();
        let mut x: Vec<f32> = (0..4 * cols).map(|_| random.signed()).collect();
        (x[7], x[cols + 300], x[2 * cols + 40]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        let expected = bits(&ordered(&w, &x).unwrap());
        assert!(expected[..3 * rows].iter().all(|v| f32::from_bits(*v).is_nan()), "{}", quant.name());
        assert!(expected[3 * rows..].iter().all(|v| f32::from_bits(*v).is_finite()), "{}", quant.name());
        in_pieces(&cpus, (&w, &x), [1, 4], &expected, &mut faults);
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
