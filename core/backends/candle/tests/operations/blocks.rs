//! Blocks of every type with random contents and finite scales.

use crate::noise;
use gguf_file::GgmlType;
use half::f16;
use menagerie_kernels::{BlockType, dequantize};
use menagerie_model::{Weight, WeightBytes, WeightShape};
use std::sync::Arc;

/// Where a block has its f16 scales (ggml-common.h); its other bytes may be anything.
const SCALES: &[(GgmlType, &[usize])] = &[
    (GgmlType::Q4_0, &[0]),
    (GgmlType::Q4_1, &[0, 2]),
    (GgmlType::Q5_0, &[0]),
    (GgmlType::Q5_1, &[0, 2]),
    (GgmlType::Q8_0, &[0]),
    (GgmlType::Q2_K, &[80, 82]),
    (GgmlType::Q3_K, &[108]),
    (GgmlType::Q4_K, &[0, 2]),
    (GgmlType::Q5_K, &[0, 2]),
    (GgmlType::Q6_K, &[208]),
    (GgmlType::IQ4_NL, &[0]),
    (GgmlType::IQ4_XS, &[0]),
    (GgmlType::IQ2_XXS, &[0]),
    (GgmlType::IQ3_S, &[0]),
    (GgmlType::TQ1_0, &[52]),
    (GgmlType::TQ2_0, &[64]),
    (GgmlType::MXFP4, &[]),
    (GgmlType::F32, &[]),
    (GgmlType::F16, &[]),
    (GgmlType::BF16, &[]),
];

/// The tested block types.
pub(crate) fn types() -> impl Iterator<Item = GgmlType> {
    SCALES.iter().map(|(block, _)| *block)
}

/// A weight of this type and its dequantized values.
pub(crate) fn weight(seed: u64, block: GgmlType, shape: WeightShape) -> (Weight, Vec<f32>) {
    let values = shape.count * shape.rows * shape.cols;
    let bytes = bytes(seed, block, values);
    let mut dequantized = vec![0.0; values];
    dequantize(BlockType::from_ggml_id(block.id()).unwrap(), &bytes, &mut dequantized).unwrap();
    let weight = Weight::new("blk.0.w", WeightBytes::Owned(Arc::new(bytes)), block, shape).unwrap();
    (weight, dequantized)
}

fn bytes(seed: u64, block: GgmlType, values: usize) -> Vec<u8> {
    let (len, size) = (block.block_len().unwrap(), block.block_bytes().unwrap());
    match block {
        GgmlType::F32 => return noise(seed, values).iter().flat_map(|x| x.to_le_bytes()).collect(),
        GgmlType::F16 => {
            return noise(seed, values).iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect();
        }
        GgmlType::BF16 => {
            return noise(seed, values).iter().flat_map(|x| half::bf16::from_f32(*x).to_le_bytes()).collect();
        }
        _ => {}
    }
    let count = values / len;
    let mut bytes: Vec<u8> = noise(seed, count * size).iter().map(|x| (x * 127.0) as i8 as u8).collect();
    let scales = SCALES.iter().find(|(known, _)| *known == block).unwrap().1;
    let sizes = noise(seed + 1, count);
    for (bytes, scale) in bytes.chunks_exact_mut(size).zip(sizes) {
        for &at in scales {
            bytes[at..at + 2].copy_from_slice(&f16::from_f32(0.01 + scale.abs() * 0.01).to_le_bytes());
        }
        if block == GgmlType::MXFP4 {
            bytes[0] = 120 + (scale * 3.0) as i8 as u8 % 4;
        }
    }
    bytes
}
