//! Kernels for processors with and without `Avx512Bytes` against each other.

use super::codebook::CodebookFormat;
use super::gemv_codebook::CodebookProducts;
use super::gemv_iq2::Iq2;
use super::gemv_iq3::Iq3;
use super::pack_codebook::PackCodebook;
use super::tile_wide::UnpackWide;
use super::{gemm_wide, gemv, gemv_codebook};
use crate::activations::{ActivationCache, Activations, Rounding};
use crate::blocks::*;
use crate::isa::{Avx512, Avx512Bytes};
use crate::matmul::types::{Int8Activations, KernelChoice, MatmulJob, Output, TokenSelection};
use crate::{Cpu, Isa};

/// Bits of the product of a matrix of generated blocks with some rows.
fn product<F: WideFormat>(choice: KernelChoice<Int8Activations>, (rows, tokens): (usize, usize)) -> Vec<u32> {
    let cols = 768;
    let bytes: Vec<u8> =
        (0..rows * cols / F::LEN * F::BYTES).map(|i| (i * 37 % 61 + i / 7 % 190) as u8).collect();
    let x: Vec<f32> = (0..tokens * cols).map(|i| (i * 29 % 101) as f32 / 50.0 - 1.0).collect();
    let (cpu, cache) = (Cpu::with_isa(Some(1), Isa::Avx512).unwrap(), ActivationCache::default());
    let a = Activations::new(&x, tokens, cols, &cache).unwrap();
    let rounded = a.quantized(&cpu, Rounding::of(F::QUANT)).unwrap();
    if let Some(order) = choice.kernel.layout() {
        rounded.arrange(&cpu, order).unwrap();
    }
    let mut y = vec![f32::NAN; tokens * rows];
    let output = Output::new(&mut y, rows);
    let mut job = MatmulJob {
        w: Matrix::new(F::QUANT.into(), rows, cols, &bytes).unwrap(),
        x: rounded,
        tokens: TokenSelection::All(tokens),
        // SAFETY: the only columns.
        out: unsafe { output.columns(0..rows) },
        caches: cpu.caches(),
    };
    cpu.pool().with_scratch(|scratch| choice.kernel.run(&mut job, scratch));
    y.iter().map(|v| v.to_bits()).collect()
}

fn compare<F: CodebookFormat, P: CodebookProducts<Blocks = F>>(isa: Avx512, bytes: Avx512Bytes) {
    for rows in [1, 16, 37] {
        let bits = product::<F>(gemv_codebook::choose::<P>(bytes), (rows, 1));
        let other = product::<F>(gemv::choose::<UnpackWide<F>>(isa), (rows, 1));
        assert_eq!(bits, other, "{} {rows}", F::QUANT.name());
        assert!(bits.iter().any(|&v| v != 0), "{}", F::QUANT.name());
        let bits = product::<F>(gemm_wide::choose_with::<PackCodebook<F>>(bytes), (rows, 5));
        let other = product::<F>(gemm_wide::choose::<UnpackWide<F>>(isa), (rows, 5));
        assert_eq!(bits, other, "{} {rows}", F::QUANT.name());
    }
}

#[test]
fn digits_are_the_same_with_and_without_permutations_of_bytes() {
    // `tests/instruction_sets.rs` says what is missing.
    let Some((isa, bytes)) = Avx512::detect().and_then(|isa| Some((isa, isa.bytes()?))) else { return };
    for rows in [1, 16, 37] {
        let bits = product::<Tq1_0>(gemv_codebook::choose::<Tq1_0>(bytes), (rows, 1));
        assert_eq!(bits, product::<Tq1_0>(gemv::choose::<Tq1_0>(isa), (rows, 1)), "{rows}");
        assert!(bits.iter().any(|&v| v != 0));
    }
}

#[test]
fn books_are_the_same_with_and_without_permutations_of_bytes() {
    // `tests/instruction_sets.rs` says what is missing.
    let Some((isa, bytes)) = Avx512::detect().and_then(|isa| Some((isa, isa.bytes()?))) else { return };
    compare::<Iq1S, Iq1S>(isa, bytes);
    compare::<Iq1M, Iq1M>(isa, bytes);
    compare::<Iq2Xxs, Iq2<Iq2Xxs>>(isa, bytes);
    compare::<Iq2Xs, Iq2<Iq2Xs>>(isa, bytes);
    compare::<Iq2S, Iq2<Iq2S>>(isa, bytes);
    compare::<Iq3Xxs, Iq3<Iq3Xxs>>(isa, bytes);
    compare::<Iq3S, Iq3<Iq3S>>(isa, bytes);
}
