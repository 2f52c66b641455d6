//! Products in f32 and of bfloat16.

use menagerie_kernels::*;
use menagerie_kernels_check::ordered::float_product::{
    FactorForm, FloatProductFault, faulty_product, product as ordered,
};
use menagerie_kernels_check::weights::random_blocks;
use menagerie_random::SplitMix64;

use super::{bits, compare, cpus, product};

/// The weights of a float type in an arithmetic.
fn factors(arithmetic: Arithmetic, block: BlockType) -> FactorForm {
    match (arithmetic, block) {
        (Arithmetic::Fast, BlockType::BF16) => FactorForm::BFloat16,
        _ => FactorForm::Plain,
    }
}

/// The arithmetics in which a type is multiplied in f32 or bfloat16.
fn arithmetics(block: BlockType) -> &'static [Arithmetic] {
    match block {
        BlockType::Float(_) => &[Arithmetic::Exact, Arithmetic::Fast],
        BlockType::Quant(_) => &[Arithmetic::Exact],
    }
}

#[test]
fn every_kernel_follows_the_order_in_any_company() {
    let mut random = SplitMix64::new(25);
    let (mut faults, cpus) = (Vec::new(), cpus(&[1, 2, 7]));
    for &block in BlockType::ALL {
        let shapes: &[(usize, usize, usize)] = match block {
            BlockType::Float(_) => {
                &[(1, 1, 3), (5, 7, 9), (3, 17, 5), (51, 387, 70), (83, 2564, 9), (37, 128, 5)]
            }
            BlockType::Quant(_) => &[(5, 1, 5), (37, 3, 9)],
        };
        for &(rows, columns, tokens) in shapes {
            let cols = columns * block.block_len();
            let bytes = random_blocks(block, rows * cols, &mut random);
            let w = Matrix::new(block, rows, cols, &bytes).unwrap();
            let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
            for &arithmetic in arithmetics(block) {
                let expected = bits(&ordered(&w, &x, factors(arithmetic, block)).unwrap());
                for cpu in &cpus {
                    for n in (1..=9).chain([33, 70]).filter(|&n| n <= tokens) {
                        let found: Vec<u32> =
                            x.chunks(n * cols).flat_map(|x| product(cpu, arithmetic, &w, x)).collect();
                        let what = || {
                            let (name, threads) = (block.name(), cpu.pool().threads());
                            format!(
                                "{name} {arithmetic:?} {} {rows}x{cols} in {n}s, {threads} threads",
                                cpu.isa()
                            )
                        };
                        compare(&found, &expected, what, &mut faults);
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Every number of rows of weights up to a tile and more, and every number of tokens from 1 to 70.
#[test]
fn every_number_of_rows_and_tokens_follows_the_order() {
    let (mut random, cpus) = (SplitMix64::new(26), cpus(&[1, 2]));
    let mut faults = Vec::new();
    for block in [BlockType::F32, BlockType::F16, BlockType::BF16] {
        let cols = 261;
        let bytes = random_blocks(block, 100 * cols, &mut random);
        let w = Matrix::new(block, 100, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..70 * cols).map(|_| random.signed()).collect();
        for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
            let expected = bits(&ordered(&w, &x, factors(arithmetic, block)).unwrap());
            for cpu in &cpus {
                for rows in (1..52).chain([64, 95, 96, 97, 100]) {
                    for tokens in [1, 2, 3, 6, 8] {
                        let found = product(cpu, arithmetic, &w.rows_range(0..rows), &x[..tokens * cols]);
                        let wanted: Vec<u32> =
                            expected.chunks(100).take(tokens).flat_map(|row| row[..rows].to_vec()).collect();
                        let what = || format!("{} {} {rows} rows, {tokens} tokens", block.name(), cpu.isa());
                        compare(&found, &wanted, what, &mut faults);
                    }
                }
                for tokens in 1..=70 {
                    let found = product(cpu, arithmetic, &w, &x[..tokens * cols]);
                    let what = || format!("{} {} {tokens} tokens", block.name(), cpu.isa());
                    compare(&found, &expected[..tokens * 100], what, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// F16 weights rounded to bfloat16, if the processor multiplies such pairs: one row as in many.
#[test]
fn coarse_half_prompts_follow_the_order() {
    let mut random = SplitMix64::new(27);
    let (rows, cols, tokens) = (51, 771, 9);
    let bytes = random_blocks(BlockType::F16, rows * cols, &mut random);
    let w = Matrix::new(BlockType::F16, rows, cols, &bytes).unwrap();
    let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
    let mut faults = Vec::new();
    for isa in Isa::available() {
        let half_prompts = HalfPrompts::BFloat16;
        let options = CpuOptions::default().with_threads(2).with_isa(isa).with_half_prompts(half_prompts);
        let cpu = Cpu::with_options(options).unwrap();
        let factors = if cpu.has_half_prompts() { FactorForm::BFloat16 } else { FactorForm::Plain };
        let expected = bits(&ordered(&w, &x, factors).unwrap());
        for n in [1, 2, 5, 9] {
            let parts = x.chunks(n * cols);
            let found: Vec<u32> = parts.flat_map(|x| product(&cpu, Arithmetic::Fast, &w, x)).collect();
            compare(&found, &expected, || format!("{isa} in {n}s"), &mut faults);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Weights of all magnitudes, including subnormal ones, and activations from 1e-45 to 1e38.
#[test]
fn numbers_at_the_edges_follow_the_order() {
    let (mut random, mut faults, cpus) = (SplitMix64::new(28), Vec::new(), cpus(&[1]));
    let (rows, cols) = (35, 515);
    for block in [BlockType::F32, BlockType::F16, BlockType::BF16] {
        let mut bytes: Vec<u8> =
            (0..rows * cols * block.block_bytes()).map(|_| random.bits() as u8).collect();
        // No weight is NaN.
        for weight in bytes.chunks_exact_mut(block.block_bytes()) {
            *weight.last_mut().unwrap() &= 0xbf;
        }
        let w = Matrix::new(block, rows, cols, &bytes).unwrap();
        let scale = |token: usize| [1.0, 1e-45, 1e-38, 1e-30, 1e-20, 1e-15, 1e-12, 1e38][token];
        let mut x: Vec<f32> = (0..8 * cols).map(|i| random.signed() * scale(i / cols)).collect();
        // All at once in one row, and in another a NaN and an infinity.
        (0..cols).for_each(|i| x[i] = random.signed() * scale(i % 8));
        (x[7 * cols + 3], x[6 * cols + 9]) = (f32::NAN, f32::INFINITY);
        for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
            let expected = bits(&ordered(&w, &x, factors(arithmetic, block)).unwrap());
            for cpu in &cpus {
                for n in [1, 3, 8] {
                    let found: Vec<u32> =
                        x.chunks(n * cols).flat_map(|x| product(cpu, arithmetic, &w, x)).collect();
                    let what = || format!("{} {arithmetic:?} {} in {n}s", block.name(), cpu.isa());
                    compare(&found, &expected, what, &mut faults);
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The comparisons above can fail: another order gives other bits, near enough to be a difference of order alone.
#[test]
fn a_planted_fault_is_seen() {
    let mut random = SplitMix64::new(29);
    for (block, factors) in [
        (BlockType::F32, FactorForm::Plain),
        (BlockType::Q4_K, FactorForm::Plain),
        (BlockType::BF16, FactorForm::BFloat16),
    ] {
        let (rows, cols, tokens) = (37, 1024, 9);
        let bytes = random_blocks(block, rows * cols, &mut random);
        let w = Matrix::new(block, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
        let expected = ordered(&w, &x, factors).unwrap();
        for fault in FloatProductFault::ALL {
            let found = faulty_product(&w, &x, factors, Some(fault)).unwrap();
            let differ = bits(&found).iter().zip(bits(&expected)).filter(|(a, b)| **a != *b).count();
            // Products of two bfloat16 are exact in f32.
            let exact = fault == FloatProductFault::Unfused && factors == FactorForm::BFloat16;
            assert_eq!(differ > found.len() / 10, !exact, "{} {fault:?}: {differ}", block.name());
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * b.abs().max(1.0);
            assert!(found.iter().zip(&expected).all(near), "{} {fault:?}", block.name());
        }
    }
}
