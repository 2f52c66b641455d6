//! Blocks against the reference values of gguf-py and ggml.

use menagerie_kernels::*;
use menagerie_kernels_check::naive;

/// The fixture's bytes: 25 types, two rows of 512 values each.
fn fixture() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/quant/blocks.safetensors");
    std::fs::read(path).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v)).collect()
}

#[test]
fn every_type_dequantizes_bit_for_bit() {
    let file = fixture();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let mut seen = 0;
    for &block in BlockType::ALL {
        let Ok(raw) = tensors.tensor(&format!("{}.raw", block.name())) else { continue };
        let wanted = floats(tensors.tensor(&format!("{}.f32", block.name())).unwrap().data());
        let mut got = vec![f32::NAN; wanted.len()];
        dequantize(block, raw.data(), &mut got).unwrap();
        let differ = got.iter().zip(&wanted).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 0, "{}", block.name());
        seen += 1;
    }
    assert_eq!(seen, 25);
}

#[test]
fn every_type_multiplies_as_the_reference_does() {
    let file = fixture();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let x = floats(tensors.tensor("x").unwrap().data());
    for isa in Isa::available() {
        let cpu = Cpu::with_isa(Some(1), isa).unwrap();
        for &block in BlockType::ALL.iter().filter(|b| **b != BlockType::F32) {
            let raw = tensors.tensor(&format!("{}.raw", block.name())).unwrap();
            let wanted = floats(tensors.tensor(&format!("{}.matvec", block.name())).unwrap().data());
            let w = Matrix::new(block, 2, 512, raw.data()).unwrap();
            let cache = ActivationCache::default();
            let a = Activations::new(&x, 1, 512, &cache).unwrap();
            let mut y = [0f32; 2];
            // The sums run over products of both signs: the tolerance is a share of their magnitudes.
            let magnitudes = naive::matmul(&w, &x).unwrap();
            for (arithmetic, tolerance) in [(Arithmetic::Exact, 1e-6), (Arithmetic::Fast, 3e-3)] {
                matmul(&cpu, arithmetic, &w, &a, &mut y).unwrap();
                for ((y, wanted), (_, magnitude)) in y.iter().zip(&wanted).zip(&magnitudes) {
                    let error = f64::from((y - wanted).abs()) / magnitude;
                    assert!(error < tolerance, "{} {isa} {arithmetic:?}: {error:e}", block.name());
                }
            }
        }
    }
}
