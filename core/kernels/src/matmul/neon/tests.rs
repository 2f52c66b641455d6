//! The two many-row engines against each other.

use std::arch::is_aarch64_feature_detected;

use super::{many, many_square};
use crate::activations::{ActivationCache, Activations, Width};
use crate::blocks::{BlockType, Matrix, Q2K, Q4_0, Q4K, Q6K, Q8_0};
use crate::matmul::job::{Input, Job, Kernel, Output, Tokens};
use crate::{Cpu, Isa};

/// Bits of the product of a matrix of made-up blocks with some rows.
fn product(kernel: Kernel, block: BlockType, (rows, tokens): (usize, usize)) -> Vec<u32> {
    let cols = 512;
    let len = block.row_bytes(cols).unwrap();
    let bytes: Vec<u8> = (0..rows * len).map(|i| (i * 37 % 61 + i / 7 % 3) as u8).collect();
    let x: Vec<f32> = (0..tokens * cols).map(|i| (i * 29 % 101) as f32 / 50.0 - 1.0).collect();
    let (cpu, cache) = (Cpu::with_isa(Some(1), Isa::Neon).unwrap(), ActivationCache::default());
    let a = Activations::new(&x, tokens, cols, &cache).unwrap();
    let rounded = a.quantised(&cpu, Width::of(block).unwrap()).unwrap();
    let mut y = vec![f32::NAN; tokens * rows];
    let job = Job {
        w: Matrix::new(block, rows, cols, &bytes).unwrap(),
        first_row: 0,
        x: Input::Rounded(rounded),
        tokens: Tokens::All(tokens),
        output: Output::new(&mut y, rows),
    };
    // SAFETY: the test has looked for the kernel's features; nothing else writes to the output.
    unsafe { kernel(&job) };
    y.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn both_engines_give_the_same_bits() {
    if !is_aarch64_feature_detected!("dotprod") || !is_aarch64_feature_detected!("i8mm") {
        return;
    }
    let kernels: [(BlockType, Kernel, Kernel); 5] = [
        (BlockType::Q4_0, many::kernel::<Q4_0>(), many_square::kernel::<Q4_0>()),
        (BlockType::Q8_0, many::kernel::<Q8_0>(), many_square::kernel::<Q8_0>()),
        (BlockType::Q2_K, many::kernel::<Q2K>(), many_square::kernel::<Q2K>()),
        (BlockType::Q4_K, many::kernel::<Q4K>(), many_square::kernel::<Q4K>()),
        (BlockType::Q6_K, many::kernel::<Q6K>(), many_square::kernel::<Q6K>()),
    ];
    for (block, dots, squares) in kernels {
        for shape in [(1, 2), (16, 4), (37, 7)] {
            let bits = product(dots, block, shape);
            assert_eq!(bits, product(squares, block, shape), "{} {shape:?}", block.name());
            assert!(bits.iter().any(|&v| v != 0), "{}", block.name());
        }
    }
}
