//! Products against the naive reference, on odd shapes and every instruction set.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;
use menagerie_kernels_check::weights::random_blocks;
use menagerie_random::SplitMix64;

fn every_isa(threads: usize) -> Vec<Cpu> {
    Isa::available().into_iter().map(|isa| Cpu::with_isa(Some(threads), isa).unwrap()).collect()
}

/// The expected result of a kernel: the naive form with the activations of the arithmetic.
fn expected(arithmetic: Arithmetic, w: &Matrix, x: &[f32]) -> Vec<(f64, f64)> {
    let group = match (arithmetic, w.block()) {
        (Arithmetic::Fast, BlockType::Quant(quant)) if quant.block_len() < 256 => 32,
        (Arithmetic::Fast, BlockType::Quant(_)) => 256,
        (Arithmetic::Fast, BlockType::BF16) => {
            let rounded: Vec<f32> = x.iter().map(|v| half::bf16::from_f32(*v).to_f32()).collect();
            return naive::matmul(w, &rounded).unwrap();
        }
        _ => return naive::matmul(w, x).unwrap(),
    };
    naive::matmul(w, &naive::rounded(x, w.cols(), group)).unwrap()
}

/// Of the sum of the products' magnitudes.
const TOLERANCE: f64 = 3e-6;

#[test]
fn every_type_shape_and_isa_agrees_with_naive() {
    let mut random = SplitMix64::new(42);
    let cpus = every_isa(1);
    for &block in BlockType::ALL {
        let unit = block.block_len().max(8);
        for (rows, cols) in [(1, unit), (5, 3 * unit), (51, 9 * unit)] {
            let bytes = random_blocks(block, rows * cols, &mut random);
            let w = Matrix::new(block, rows, cols, &bytes).unwrap();
            for tokens in [1, 2, 3, 5, 13, 64] {
                let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
                for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
                    let wanted = expected(arithmetic, &w, &x);
                    for cpu in &cpus {
                        let cache = ActivationCache::default();
                        let a = Activations::new(&x, tokens, cols, &cache).unwrap();
                        let mut y = vec![f32::NAN; tokens * rows];
                        matmul(cpu, arithmetic, &w, &a, &mut y).unwrap();
                        for (at, (y, (sum, magnitude))) in y.iter().zip(&wanted).enumerate() {
                            let error = (f64::from(*y) - sum).abs() / magnitude.max(1e-30);
                            assert!(
                                error < TOLERANCE,
                                "{} {rows}x{cols} {tokens} tokens {arithmetic:?} {}: {at}: {y} for {sum}, {error:e}",
                                block.name(),
                                cpu.isa()
                            );
                        }
                    }
                }
            }
        }
    }
}

fn product(cpu: &Cpu, arithmetic: Arithmetic, w: &Matrix, x: &[f32]) -> Vec<u32> {
    let (tokens, cache) = (x.len() / w.cols(), ActivationCache::default());
    let a = Activations::new(x, tokens, w.cols(), &cache).unwrap();
    let mut y = vec![f32::NAN; tokens * w.rows()];
    matmul(cpu, arithmetic, w, &a, &mut y).unwrap();
    y.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn a_row_depends_on_itself_alone() {
    let mut random = SplitMix64::new(7);
    for &block in BlockType::ALL {
        let (rows, cols) = (83, 2 * block.block_len().max(160));
        let bytes = random_blocks(block, rows * cols, &mut random);
        let w = Matrix::new(block, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..17 * cols).map(|_| random.signed()).collect();
        for isa in Isa::available() {
            let (one, three) = (Cpu::with_isa(Some(1), isa).unwrap(), Cpu::with_isa(Some(3), isa).unwrap());
            for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
                let all = product(&one, arithmetic, &w, &x);
                assert_eq!(all, product(&three, arithmetic, &w, &x), "{} {isa} threads", block.name());
                for (first, count) in [(0, 2), (3, 3), (5, 7), (15, 2), (4, 13)] {
                    let part = product(&three, arithmetic, &w, &x[first * cols..(first + count) * cols]);
                    assert_eq!(part, all[first * rows..(first + count) * rows], "{} {isa}", block.name());
                }
            }
        }
    }
}

#[test]
fn more_tokens_than_one_pass_are_the_same_as_few() {
    let mut random = SplitMix64::new(11);
    for block in [BlockType::Q4_0, BlockType::Q8_0, BlockType::F32, BlockType::BF16, BlockType::Q6_K] {
        let (rows, cols, tokens) = (19, block.block_len().max(64), 1029);
        let bytes = random_blocks(block, rows * cols, &mut random);
        let w = Matrix::new(block, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
        for cpu in every_isa(2) {
            let all = product(&cpu, Arithmetic::Fast, &w, &x);
            for first in [0, 510, 1027] {
                let part = product(&cpu, Arithmetic::Fast, &w, &x[first * cols..(first + 2) * cols]);
                assert_eq!(part, all[first * rows..(first + 2) * rows], "{} {}", block.name(), cpu.isa());
            }
        }
    }
}

#[test]
fn many_matrices_and_experts_are_the_single_products() {
    let mut random = SplitMix64::new(3);
    let cols = 256;
    for cpu in every_isa(2) {
        for tokens in [1usize, 9] {
            let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
            let kinds =
                [(BlockType::Q4_K, 65), (BlockType::Q8_0, 7), (BlockType::F32, 33), (BlockType::Q6_K, 64)];
            let bytes = kinds.map(|(block, rows)| random_blocks(block, rows * cols, &mut random));
            let ws: Vec<Matrix> = kinds
                .iter()
                .zip(&bytes)
                .map(|(&(b, r), bytes)| Matrix::new(b, r, cols, bytes).unwrap())
                .collect();
            let cache = ActivationCache::default();
            let a = Activations::new(&x, tokens, cols, &cache).unwrap();
            let mut ys: Vec<Vec<f32>> = ws.iter().map(|w| vec![0f32; tokens * w.rows()]).collect();
            let mut outputs: Vec<&mut [f32]> = ys.iter_mut().map(Vec::as_mut_slice).collect();
            matmul_many(&cpu, Arithmetic::Fast, &ws, &a, &mut outputs).unwrap();
            for (w, y) in ws.iter().zip(&ys) {
                let bits: Vec<u32> = y.iter().map(|v| v.to_bits()).collect();
                assert_eq!(bits, product(&cpu, Arithmetic::Fast, w, &x));
            }
        }
    }
}

/// Two stacks in one region, of different types and sizes.
#[test]
fn experts_of_several_stacks_are_the_single_products() {
    let mut random = SplitMix64::new(5);
    let cols = 256;
    let kinds = [(BlockType::Q4_K, 40), (BlockType::Q8_0, 24)];
    let bytes = kinds.map(|(block, width)| random_blocks(block, 3 * width * cols, &mut random));
    for (cpu, tokens) in every_isa(2).into_iter().flat_map(|cpu| [(cpu.clone(), 1usize), (cpu, 9)]) {
        let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
        let cache = ActivationCache::default();
        let a = Activations::new(&x, tokens, cols, &cache).unwrap();
        let lists: Vec<Vec<u32>> = (0..3usize)
            .map(|e| (0..tokens).filter(|t| tokens == 1 || t % 3 != e).map(|t| t as u32).collect())
            .collect();
        let stack = |index: usize| -> Vec<ExpertRows> {
            let (block, width) = kinds[index];
            let all = Matrix::new(block, 3 * width, cols, &bytes[index]).unwrap();
            let expert = |e: usize| ExpertRows {
                matrix: all.rows_range(e * width..e * width + width),
                rows: &lists[e],
            };
            (0..3).map(expert).collect()
        };
        let stacks = [stack(0), stack(1)];
        let packed: usize = lists.iter().map(Vec::len).sum();
        let mut ys = kinds.map(|(_, width)| vec![f32::NAN; packed * width]);
        let [first, second] = &mut ys;
        let parts = [stacks[0].as_slice(), &stacks[1]];
        matmul_experts(&cpu, Arithmetic::Fast, &parts, &a, &mut [first, second]).unwrap();
        for ((stack, y), (_, width)) in stacks.iter().zip(&ys).zip(kinds) {
            let mut mine = y.chunks_exact(width);
            for expert in stack {
                let all = product(&cpu, Arithmetic::Fast, &expert.matrix, &x);
                for &row in expert.rows {
                    let bits: Vec<u32> = mine.next().unwrap().iter().map(|v| v.to_bits()).collect();
                    assert_eq!(bits, all[row as usize * width..][..width], "{}", cpu.isa());
                }
            }
            assert!(mine.next().is_none());
        }
    }
}

#[test]
fn each_row_with_a_matrix_of_its_own_is_the_single_product() {
    let mut random = SplitMix64::new(4);
    let cols = 512;
    for cpu in every_isa(2) {
        let kinds =
            [(BlockType::Q4_K, 40), (BlockType::Q8_0, 7), (BlockType::F16, 33), (BlockType::Q4_K, 64)];
        let x: Vec<Vec<f32>> = kinds.map(|_| (0..cols).map(|_| random.signed()).collect()).to_vec();
        let bytes = kinds.map(|(block, rows)| random_blocks(block, rows * cols, &mut random));
        let matrix = |i: usize| Matrix::new(kinds[i].0, kinds[i].1, cols, &bytes[i]).unwrap();
        let caches: Vec<ActivationCache> = kinds.map(|_| ActivationCache::default()).into();
        let input = |i: usize| Activations::new(&x[i], 1, cols, &caches[i]).unwrap();
        let products: Vec<Gemv> = (0..4).map(|i| Gemv { matrix: matrix(i), x: input(i) }).collect();
        let mut y = vec![0f32; 40 + 7 + 33 + 64];
        matmul_each(&cpu, Arithmetic::Fast, &products, &mut y).unwrap();
        let bits: Vec<u32> = y.iter().map(|v| v.to_bits()).collect();
        let single: Vec<u32> =
            (0..4).flat_map(|i| product(&cpu, Arithmetic::Fast, &matrix(i), &x[i])).collect();
        assert_eq!(bits, single, "{}", cpu.isa());
        assert!(matmul_each(&cpu, Arithmetic::Fast, &products, &mut y[1..]).is_err());
    }
}

#[test]
fn no_bit_depends_on_the_caches() {
    let mut random = SplitMix64::new(12);
    for &block in BlockType::ALL {
        let (rows, cols, tokens) = (67, block.block_len() * (1300 / block.block_len()), 150);
        let bytes = random_blocks(block, rows * cols, &mut random);
        let w = Matrix::new(block, rows, cols, &bytes).unwrap();
        let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
        for isa in Isa::available() {
            let run = |caches: Caches, arithmetic| {
                let (isa, caches) = (Some(isa), Some(caches));
                let options = CpuOptions::default().with_threads(2).with_isa(isa).with_caches(caches);
                product(&Cpu::with_options(options).unwrap(), arithmetic, &w, &x)
            };
            for arithmetic in [Arithmetic::Exact, Arithmetic::Fast] {
                let usual = run(Caches { l1d: 32 << 10, l2: 1 << 20 }, arithmetic);
                for caches in [
                    Caches { l1d: 48 << 10, l2: 2 << 20 },
                    Caches { l1d: 192 << 10, l2: 64 << 10 },
                    Caches { l1d: 4 << 10, l2: 4 << 10 },
                ] {
                    assert!(run(caches, arithmetic) == usual, "{} {isa} {caches:?}", block.name());
                }
            }
        }
    }
}

#[test]
fn f16_prompts_are_exact_unless_the_option_says_otherwise() {
    let mut random = SplitMix64::new(13);
    let (rows, cols, tokens) = (50, 600, 9);
    let bytes = random_blocks(BlockType::F16, rows * cols, &mut random);
    let w = Matrix::new(BlockType::F16, rows, cols, &bytes).unwrap();
    let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
    let wanted = naive::matmul(&w, &x).unwrap();
    let worst = |cpu: &Cpu| {
        let y = product(cpu, Arithmetic::Fast, &w, &x);
        let errors = y
            .iter()
            .zip(&wanted)
            .map(|(y, (sum, magnitude))| (f64::from(f32::from_bits(*y)) - sum).abs() / magnitude);
        errors.fold(0.0, f64::max)
    };
    for isa in Isa::available() {
        let options = CpuOptions::default().with_threads(1).with_isa(isa);
        // llama.cpp rounds activations to F16: 2^-12 of each product.
        assert!(worst(&Cpu::with_options(options).unwrap()) < 1e-6, "{isa}");
        let coarse = options.with_half_prompts(HalfPrompts::BFloat16);
        let coarse = Cpu::with_options(coarse).unwrap();
        let error = worst(&coarse);
        assert!(error < 4e-3, "{isa}");
        assert_eq!(error > 1e-5, coarse.has_half_prompts(), "{isa} {error}");
        #[cfg(target_arch = "x86_64")]
        assert_eq!(
            error > 1e-5,
            isa == Isa::Avx512 && is_x86_feature_detected!("avx512bf16"),
            "{isa} {error}"
        );
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let cpu = Cpu::with_isa(Some(1), Isa::Portable).unwrap();
    let bytes = vec![0u8; 34 * 4];
    let w = Matrix::new(BlockType::Q8_0, 4, 32, &bytes).unwrap();
    assert!(Matrix::new(BlockType::Q8_0, 4, 33, &bytes).is_err());
    assert!(Matrix::new(BlockType::Q8_0, 5, 32, &bytes).is_err());
    let (x, cache) = (vec![0f32; 64], ActivationCache::default());
    let a = Activations::new(&x, 2, 32, &cache).unwrap();
    let mut y = vec![0f32; 7];
    assert!(matmul(&cpu, Arithmetic::Fast, &w, &a, &mut y).is_err());
    let wrong = Activations { values: &x, rows: 3, cols: 32, cache: &cache };
    assert!(matmul(&cpu, Arithmetic::Fast, &w, &wrong, &mut [0f32; 12]).is_err());
    let experts = [ExpertRows { matrix: w, rows: &[0, 2] }];
    assert!(matmul_experts(&cpu, Arithmetic::Fast, &[&experts], &a, &mut [&mut [0f32; 8]]).is_err());
    assert!(matmul_experts(&cpu, Arithmetic::Fast, &[&experts[..0]], &a, &mut []).is_err());
}

/// Kernels address the rows of a tile by 32-bit offsets, which longer rows would exceed. The pages are never touched.
#[test]
fn rows_past_what_kernels_can_address_are_refused() {
    let (block, longest) = (BlockType::Q8_0, i32::MAX as usize / 15);
    let cols = (longest / 34 + 1) * 32;
    let bytes = vec![0u8; 2 * cols / 32 * 34];
    let refused = Matrix::new(block, 2, cols, &bytes).map(drop).unwrap_err().to_string();
    assert!(refused.contains("can be multiplied"), "{refused}");
    // A vector is never gathered from.
    assert!(Matrix::new(block, 1, cols, &bytes[..bytes.len() / 2]).is_ok());
    let cols = cols - 32;
    assert!(Matrix::new(block, 2, cols, &bytes[..2 * cols / 32 * 34]).is_ok());
}

#[test]
fn a_nan_in_the_input_is_not_lost() {
    let mut random = SplitMix64::new(9);
    for cpu in every_isa(1) {
        for &block in BlockType::ALL {
            let bytes = random_blocks(block, 20 * 256, &mut random);
            let w = Matrix::new(block, 20, 256, &bytes).unwrap();
            for tokens in [1, 3] {
                let mut x: Vec<f32> = (0..tokens * 256).map(|_| random.signed()).collect();
                x[77] = f32::NAN;
                let y = product(&cpu, Arithmetic::Fast, &w, &x);
                assert!(y[..20].iter().all(|&v| f32::from_bits(v).is_nan()), "{}", block.name());
            }
        }
    }
}
