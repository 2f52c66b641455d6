//! The two many-row engines against each other.

use super::tile::{NeonFormat, NeonNarrow, NeonWide};
use super::{gemm, gemm_i8mm};
use crate::activations::{ActivationCache, Activations, Rounding};
use crate::blocks::{Format, Matrix, Q2K, Q4_0, Q4K, Q6K, Q8_0};
use crate::isa::{DotProducts, MatrixProducts, Neon};
use crate::matmul::types::{Int8Activations, KernelChoice, MatmulJob, Output, TokenSelection};
use crate::{Cpu, Isa};

/// Bits of the product of a matrix of generated blocks with some rows.
fn product<S: NeonFormat>(choice: KernelChoice<Int8Activations>, (rows, tokens): (usize, usize)) -> Vec<u32> {
    let (block, cols) = (S::Blocks::QUANT.into(), 512);
    let len = cols / S::Blocks::LEN * S::Blocks::BYTES;
    let bytes: Vec<u8> = (0..rows * len).map(|i| (i * 37 % 61 + i / 7 % 3) as u8).collect();
    let x: Vec<f32> = (0..tokens * cols).map(|i| (i * 29 % 101) as f32 / 50.0 - 1.0).collect();
    let (cpu, cache) = (Cpu::with_isa(Some(1), Isa::Neon).unwrap(), ActivationCache::default());
    let a = Activations::new(&x, tokens, cols, &cache).unwrap();
    let rounded = a.quantized(&cpu, Rounding::of(S::Blocks::QUANT)).unwrap();
    let mut y = vec![f32::NAN; tokens * rows];
    let output = Output::new(&mut y, rows);
    let mut job = MatmulJob {
        w: Matrix::new(block, rows, cols, &bytes).unwrap(),
        x: rounded,
        tokens: TokenSelection::All(tokens),
        // SAFETY: the only columns.
        out: unsafe { output.columns(0..rows) },
        caches: cpu.caches(),
    };
    cpu.pool().with_scratch(|scratch| choice.kernel.run(&mut job, scratch));
    y.iter().map(|v| v.to_bits()).collect()
}

fn compare<S: NeonFormat>(dots: DotProducts, squares: MatrixProducts) {
    for shape in [(1, 2), (16, 4), (37, 7)] {
        let bits = product::<S>(gemm::choose::<S>(dots), shape);
        let other = product::<S>(gemm_i8mm::choose::<S>(squares), shape);
        assert_eq!(bits, other, "{} {shape:?}", S::Blocks::QUANT.name());
        assert!(bits.iter().any(|&v| v != 0), "{}", S::Blocks::QUANT.name());
    }
}

#[test]
fn both_engines_give_the_same_bits() {
    let isa = Neon::detect().unwrap();
    // `tests/instruction_sets.rs` says what is missing.
    let (Some(dots), Some(squares)) = (isa.dot_products(), isa.matrix_products()) else { return };
    compare::<NeonNarrow<Q4_0>>(dots, squares);
    compare::<NeonNarrow<Q8_0>>(dots, squares);
    compare::<NeonWide<Q2K>>(dots, squares);
    compare::<NeonWide<Q4K>>(dots, squares);
    compare::<NeonWide<Q6K>>(dots, squares);
}
