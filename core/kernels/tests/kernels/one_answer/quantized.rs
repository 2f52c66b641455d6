//! Products of quantized weights with activations rounded to 8 bits.

use menagerie_kernels::*;
use menagerie_kernels_check::ordered::product::{ProductFault, faulty_product, product as ordered};
use menagerie_kernels_check::weights::random_blocks;
use menagerie_random::SplitMix64;

use super::{bits, compare, cpus, product};

/// Blocks and activations of a shape.
struct Case {
    quant: QuantType,
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
    x: Vec<f32>,
}

impl Case {
    fn new(quant: QuantType, (rows, cols, tokens): (usize, usize, usize), random: &mut SplitMix64) -> Case {
        let bytes = random_blocks(quant.into(), rows * cols, random);
        Case { quant, rows, cols, bytes, x: (0..tokens * cols).map(|_| random.signed()).collect() }
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix::new(self.quant.into(), self.rows, self.cols, &self.bytes).unwrap()
    }

    fn expected(&self) -> Vec<u32> {
        bits(&ordered(&self.matrix(), &self.x).unwrap())
    }
}

/// The columns of `blocks` blocks of 256, less one block of a type whose blocks are shorter.
fn odd_columns(quant: QuantType, blocks: usize) -> usize {
    256 * blocks - if quant.block_len() < 256 { quant.block_len() } else { 0 }
}

#[test]
fn every_kernel_follows_the_order_in_any_company() {
    let mut random = SplitMix64::new(5);
    let (mut faults, cpus) = (Vec::new(), cpus(&[1, 2, 7]));
    for &quant in QuantType::ALL {
        let one = quant.block_len();
        let shapes = [
            (1, one, 70),
            (3, odd_columns(quant, 2), 9),
            (37, odd_columns(quant, 3), 70),
            (21, odd_columns(quant, 7), 3),
            (9, odd_columns(quant, 12), 3),
            (131, 2560, 8),
        ];
        for shape in shapes {
            let (case, (rows, cols, tokens)) = (Case::new(quant, shape, &mut random), shape);
            let expected = case.expected();
            for cpu in &cpus {
                for n in (1..=9).chain([16, 33, 70]).filter(|&n| n <= tokens) {
                    let parts = case.x.chunks(n * cols);
                    let found: Vec<u32> =
                        parts.flat_map(|x| product(cpu, Arithmetic::Fast, &case.matrix(), x)).collect();
                    let threads = cpu.pool().threads();
                    let what =
                        || format!("{} {} {rows}x{cols} in {n}s, {threads} threads", quant.name(), cpu.isa());
                    compare(&found, &expected, what, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every number of rows of weights up to three tiles, and every number of tokens up to two passes of four and more.
#[test]
fn every_number_of_rows_and_tokens_follows_the_order() {
    let (mut random, cpus) = (SplitMix64::new(6), cpus(&[1, 2]));
    let mut faults = Vec::new();
    for quant in [
        QuantType::Q4_0,
        QuantType::Q5_1,
        QuantType::Q8_0,
        QuantType::NVFP4,
        QuantType::Q4_K,
        QuantType::Q6_K,
    ] {
        let case = Case::new(quant, (150, 512, 70), &mut random);
        let expected = case.expected();
        for cpu in &cpus {
            for rows in (1..52).chain([95, 96, 97, 145, 150]) {
                let w = case.matrix().rows_range(0..rows);
                for tokens in [1, 2, 3, 6, 8] {
                    let found = product(cpu, Arithmetic::Fast, &w, &case.x[..tokens * 512]);
                    let wanted: Vec<u32> =
                        expected.chunks(150).take(tokens).flat_map(|row| row[..rows].to_vec()).collect();
                    let what = || format!("{} {} {rows} rows, {tokens} tokens", quant.name(), cpu.isa());
                    compare(&found, &wanted, what, &mut faults);
                }
            }
            for tokens in 1..=70 {
                let found = product(cpu, Arithmetic::Fast, &case.matrix(), &case.x[..tokens * 512]);
                let what = || format!("{} {} {tokens} tokens", quant.name(), cpu.isa());
                compare(&found, &expected[..tokens * 150], what, &mut faults);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn other_ways_to_ask_give_the_same_bits() {
    let mut random = SplitMix64::new(7);
    for &quant in QuantType::ALL {
        let (rows, cols, tokens) = (23, odd_columns(quant, 2), 6);
        let case = Case::new(quant, (2 * rows, cols, tokens), &mut random);
        let (expected, w) = (case.expected(), case.matrix());
        let halves = [w.rows_range(0..rows), w.rows_range(rows..2 * rows)];
        let wanted = |half: usize, token: usize| &expected[token * 2 * rows + half * rows..][..rows];
        for cpu in &cpus(&[1, 7]) {
            let cache = ActivationCache::default();
            let x = Activations::new(&case.x, tokens, cols, &cache).unwrap();
            let mut ys = [vec![0f32; tokens * rows], vec![0f32; tokens * rows]];
            let [first, second] = &mut ys;
            matmul_many(cpu, Arithmetic::Fast, &halves, &x, &mut [first, second]).unwrap();
            let lists: [&[u32]; 2] = [&[4, 0, 0], &[5]];
            let stack = [0, 1].map(|e| ExpertRows { matrix: halves[e], rows: lists[e] });
            let mut packed = vec![0f32; 4 * rows];
            matmul_experts(cpu, Arithmetic::Fast, &[&stack], &x, &mut [&mut packed]).unwrap();
            for (half, y) in ys.iter().enumerate() {
                for token in 0..tokens {
                    assert_eq!(
                        bits(&y[token * rows..][..rows]),
                        wanted(half, token),
                        "{} {}",
                        quant.name(),
                        cpu.isa()
                    );
                }
            }
            let rows_of = [(0, 4), (0, 0), (0, 0), (1, 5)];
            for ((half, token), y) in rows_of.into_iter().zip(packed.chunks(rows)) {
                assert_eq!(bits(y), wanted(half, token), "experts: {} {}", quant.name(), cpu.isa());
            }
            let caches: [ActivationCache; 2] = Default::default();
            let one = |token: usize| {
                Activations::new(&case.x[token * cols..][..cols], 1, cols, &caches[token]).unwrap()
            };
            let products = [0, 1].map(|i| Gemv { matrix: halves[1 - i], x: one(i) });
            let mut each = vec![0f32; 2 * rows];
            matmul_each(cpu, Arithmetic::Fast, &products, &mut each).unwrap();
            assert_eq!(bits(&each[..rows]), wanted(1, 0), "each: {} {}", quant.name(), cpu.isa());
            assert_eq!(bits(&each[rows..]), wanted(0, 1), "each: {} {}", quant.name(), cpu.isa());
        }
    }
}

/// Experts with one to nine rows each, any of an input of forty: the kernels for few rows read the chosen ones.
#[test]
fn experts_of_few_rows_follow_the_order() {
    let mut random = SplitMix64::new(9);
    let (rows, tokens) = (21, 40);
    let lists: Vec<Vec<u32>> = (1..=9).map(|n| (0..n).map(|i| (i * 17 + n * 5) % tokens).collect()).collect();
    let cpus = cpus(&[1, 3]);
    for &quant in QuantType::ALL {
        let cols = odd_columns(quant, 5);
        let case = Case::new(quant, (9 * rows, cols, tokens as usize), &mut random);
        let (expected, w) = (case.expected(), case.matrix());
        let expert =
            |e: usize| ExpertRows { matrix: w.rows_range(e * rows..(e + 1) * rows), rows: &lists[e] };
        let stack: Vec<ExpertRows> = (0..9).map(expert).collect();
        let mut wanted = Vec::new();
        for (e, list) in lists.iter().enumerate() {
            for &token in list {
                wanted.extend_from_slice(&expected[token as usize * 9 * rows + e * rows..][..rows]);
            }
        }
        for cpu in &cpus {
            let cache = ActivationCache::default();
            let x = Activations::new(&case.x, tokens as usize, cols, &cache).unwrap();
            let mut packed = vec![f32::NAN; wanted.len()];
            matmul_experts(cpu, Arithmetic::Fast, &[&stack], &x, &mut [&mut packed]).unwrap();
            assert_eq!(bits(&packed), wanted, "{} {}", quant.name(), cpu.isa());
        }
    }
}

/// The comparison above can fail: another order gives other bits, for every type.
#[test]
fn a_planted_fault_is_seen() {
    let mut random = SplitMix64::new(8);
    for &quant in QuantType::ALL {
        let case = Case::new(quant, (37, odd_columns(quant, 3), 9), &mut random);
        let expected = case.expected();
        for fault in ProductFault::ALL {
            let found = bits(&faulty_product(&case.matrix(), &case.x, Some(fault)).unwrap());
            let differ = found.iter().zip(&expected).filter(|(a, b)| a != b).count();
            // A fault that changes anything changes many results: a sum has a rounding in every step.
            let (least, most) = if fault.concerns(quant) { (found.len() / 20, found.len()) } else { (0, 0) };
            assert!(
                (least..=most).contains(&differ),
                "{} {fault:?}: {differ} of {}",
                quant.name(),
                found.len()
            );
            // The fault only changes the order.
            for (a, b) in found.iter().zip(&expected) {
                let (a, b) = (f32::from_bits(*a), f32::from_bits(*b));
                assert!((a - b).abs() <= 1e-3 * b.abs().max(1.0), "{} {fault:?}: {a} {b}", quant.name());
            }
        }
    }
}
