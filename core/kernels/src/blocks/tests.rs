//! Blocks against the reference values of gguf-py and ggml.

use super::*;
use crate::activations::{ActivationCache, Activations};
use crate::{Arithmetic, Cpu, Isa, matmul};

/// The fixture's bytes: 25 types, two rows of 512 values each.
fn fixture() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/quant/blocks.safetensors");
    std::fs::read(path).unwrap()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|v| f32::from_le_bytes(*v)).collect()
}

#[test]
fn every_type_dequantises_bit_for_bit() {
    let file = fixture();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let mut seen = 0;
    for &block in BlockType::ALL {
        let Ok(raw) = tensors.tensor(&format!("{}.raw", block.name())) else { continue };
        let wanted = floats(tensors.tensor(&format!("{}.f32", block.name())).unwrap().data());
        let mut got = vec![f32::NAN; wanted.len()];
        dequantise(block, raw.data(), &mut got).unwrap();
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
            let magnitudes = crate::naive::matmul(&w, &x).unwrap();
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

#[test]
fn ids_and_names_lead_back() {
    for &block in BlockType::ALL {
        assert_eq!(BlockType::from_ggml_id(block.ggml_id()), Some(block));
        assert_eq!(block.row_bytes(2 * block.block_len()), Some(2 * block.block_bytes()));
    }
    assert_eq!(BlockType::from_ggml_id(4), None);
    assert_eq!(BlockType::Q4_K.name(), "Q4_K");
    assert_eq!(BlockType::Q4_K.row_bytes(255), None);
}

#[test]
fn halves_convert_exactly() {
    for bits in 0..=u16::MAX {
        let (got, wanted) = (f16_to_f32(bits), half::f16::from_bits(bits).to_f32());
        assert!(
            got == wanted && got.is_sign_negative() == wanted.is_sign_negative()
                || got.is_nan() && wanted.is_nan()
        );
    }
}

#[test]
fn values_keep_within_the_span_that_kernels_rely_on() {
    fn check<F: Format>(name: &str) {
        let mut state = 1u64;
        for _ in 0..2000 {
            let block: Vec<u8> = (0..F::BYTES)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    state as u8
                })
                .collect();
            let (mut q, mut scale, mut min) = ([0i8; SUPER], [0f32; GROUPS], [0f32; GROUPS]);
            F::expand(&block, &mut q, &mut scale, &mut min);
            for &q in &q[..F::LEN] {
                let unsigned = i32::from(q) + F::OFFSET;
                assert!((0..=F::SPAN).contains(&unsigned), "{name}: {q}");
            }
        }
        assert!(if F::MIN { F::OFFSET == 0 } else { F::OFFSET.count_ones() == 1 });
    }
    for &block in BlockType::ALL {
        with_format!(block, F => check::<F>(block.name()), float => ());
    }
}
