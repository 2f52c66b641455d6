//! Reports which instruction sets and features the tests of this machine cover: the kernels of each run here, and those
//! that this processor lacks are named. A binary without the test harness, so that its output is visible.
//!
//! With `MENAGERIE_REQUIRE_ISA` ("portable avx2 avx512 avx512bf16 avx512vbmi") it fails unless exactly those ran:
//! `.ci/run` sets it to what the system reports of the processor.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use menagerie_kernels::*;
use menagerie_kernels_check::naive;
use menagerie_kernels_check::weights::random_blocks;
use menagerie_random::SplitMix64;
use std::collections::BTreeSet;

/// Everything that kernels are written for: families, and the additional features that some kernels of a family use.
const KNOWN: [(Isa, &[&str]); 4] = [
    (Isa::Portable, &[]),
    (Isa::Avx2, &[]),
    (Isa::Avx512, &["avx512bf16", "avx512vbmi"]),
    (Isa::Neon, &["dotprod", "i8mm"]),
];

fn product(cpu: &Cpu, arithmetic: Arithmetic, w: &Matrix, x: &[f32]) -> Vec<f32> {
    let (tokens, cache) = (x.len() / w.cols(), ActivationCache::default());
    let x = Activations::new(x, tokens, w.cols(), &cache).unwrap();
    let mut y = vec![f32::NAN; tokens * w.rows()];
    matmul(cpu, arithmetic, w, &x, &mut y).unwrap();
    y
}

/// Runs the kernels of a family for one row and for several, and those of its extensions.
fn run(isa: Isa) {
    let cpu = Cpu::with_isa(Some(1), isa).unwrap();
    assert_eq!(cpu.isa(), isa);
    let mut random = SplitMix64::new(1);
    let (rows, cols) = (48, 512);
    for block in [BlockType::F32, BlockType::BF16, BlockType::Q8_0, BlockType::Q4_K] {
        let bytes = random_blocks(block, rows * cols, &mut random);
        let w = Matrix::new(block, rows, cols, &bytes).unwrap();
        for tokens in [1, 6] {
            let x: Vec<f32> = (0..tokens * cols).map(|_| random.signed()).collect();
            let wanted = naive::matmul(&w, &x).unwrap();
            let exact = product(&cpu, Arithmetic::Exact, &w, &x);
            let fast = product(&cpu, Arithmetic::Fast, &w, &x);
            let worst = |y: &[f32]| {
                let errors = y.iter().zip(&wanted).map(|(y, (sum, all))| (f64::from(*y) - sum).abs() / all);
                errors.fold(0.0, |worst: f64, error| if error.is_nan() { f64::NAN } else { worst.max(error) })
            };
            // Rounding activations to 8 bits moves a sum by up to 2^-7 of its magnitude.
            assert!(worst(&exact) < 3e-6 && worst(&fast) < 1e-2, "{isa} {}", block.name());
            // Products of bfloat16 are recognized by their rounding.
            if block == BlockType::BF16 {
                assert!(worst(&fast) > 1e-5, "{isa} {tokens}");
            }
        }
    }
}

fn main() {
    let mut ran = BTreeSet::new();
    for (isa, extensions) in KNOWN {
        let found = isa.extensions();
        assert!(found.iter().all(|name| extensions.contains(name)), "{isa}: {found:?} is not listed here");
        if isa.is_available() {
            run(isa);
            ran.insert(isa.name());
            ran.extend(&found);
        }
        for name in [isa.name()].iter().chain(extensions) {
            let said = if ran.contains(name) { "ok" } else { "ignored, not of this processor" };
            println!("test instruction set {name} ... {said}");
        }
    }
    assert_eq!(
        Isa::available(),
        KNOWN.map(|known| known.0).into_iter().filter(|isa| isa.is_available()).collect::<Vec<_>>()
    );
    if let Ok(required) = std::env::var("MENAGERIE_REQUIRE_ISA") {
        let required: BTreeSet<&str> = required.split_whitespace().collect();
        assert_eq!(
            ran, required,
            "left: what ran; right: what MENAGERIE_REQUIRE_ISA says this processor has"
        );
    }
}
