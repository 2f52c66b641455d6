//! Random blocks of each ggml type whose values have about a given standard deviation.
//!
//! Layouts: `ggml-common.h`. Codes are uniform random bits; the scale fields are set so that values have mean near 0 and
//! the given standard deviation.

use gguf_file::GgmlType;
use half::{bf16, f16};
use menagerie_random::SplitMix64;

/// A half-precision field at a byte offset, as a multiple of the spread.
type Field = (usize, f32);

/// The fields of a random block of a type.
struct BlockRecipe {
    name: &'static str,
    fields: &'static [Field],
}

/// Scale fields per type. With uniform codes of standard deviation c, `d = spread / c`; minima center the values.
const RECIPES: &[BlockRecipe] = &[
    BlockRecipe { name: "Q4_0", fields: &[(0, 1.0 / 4.6)] },
    BlockRecipe { name: "Q4_1", fields: &[(0, 1.0 / 4.6), (2, -7.5 / 4.6)] },
    BlockRecipe { name: "Q5_0", fields: &[(0, 1.0 / 9.2)] },
    BlockRecipe { name: "Q5_1", fields: &[(0, 1.0 / 9.2), (2, -15.5 / 9.2)] },
    BlockRecipe { name: "Q8_0", fields: &[(0, 1.0 / 73.9)] },
    BlockRecipe { name: "Q2_K", fields: &[(80, 1.0 / 13.0), (82, 1.5 / 13.0)] },
    BlockRecipe { name: "Q3_K", fields: &[(108, 1.0 / 43.0)] },
    BlockRecipe { name: "Q4_K", fields: &[(0, 1.0 / 259.0), (2, 7.5 / 259.0)] },
    BlockRecipe { name: "Q5_K", fields: &[(0, 1.0 / 535.0), (2, 15.5 / 535.0)] },
    BlockRecipe { name: "Q6_K", fields: &[(208, 1.0 / 1369.0)] },
    BlockRecipe { name: "IQ4_NL", fields: &[(0, 1.0 / 69.0)] },
    BlockRecipe { name: "IQ4_XS", fields: &[(0, 1.0 / 1280.0)] },
];

/// Whether random blocks of a type can be made.
pub fn can_fill(kind: GgmlType) -> bool {
    matches!(kind.name(), "F32" | "F16" | "BF16" | "MXFP4")
        || RECIPES.iter().any(|recipe| recipe.name == kind.name())
}

/// Fills whole blocks of `kind` with values of about this spread around `center` (floats only).
///
/// Types without a recipe (see [`can_fill`]) are left as they are.
pub fn fill(kind: GgmlType, random: &mut SplitMix64, spread: f32, center: f32, bytes: &mut [u8]) {
    // Uniform in [-1, 1) has standard deviation 1 / sqrt(3).
    let width = spread * 3f32.sqrt();
    match kind.name() {
        "F32" => {
            for value in bytes.as_chunks_mut::<4>().0 {
                *value = (center + width * random.signed()).to_le_bytes();
            }
        }
        "F16" => {
            for value in bytes.as_chunks_mut::<2>().0 {
                *value = half_bits(center + width * random.signed()).to_le_bytes();
            }
        }
        "BF16" => {
            for value in bytes.as_chunks_mut::<2>().0 {
                *value = bf16::from_f32(center + width * random.signed()).to_le_bytes();
            }
        }
        "MXFP4" => {
            random.fill(bytes);
            // Codes 0, 1, 2, 3, 4, 6, 8, 12 of both signs have a root mean square of 5.8; a value is code * 2^(e - 128).
            let exponent = (128.0 + (spread / 5.8).log2()).round().clamp(1.0, 254.0) as u8;
            bytes.chunks_mut(17).for_each(|block| block[0] = exponent);
        }
        name => {
            let Some(recipe) = RECIPES.iter().find(|recipe| recipe.name == name) else { return };
            let Some(size) = kind.block_bytes() else { return };
            random.fill(bytes);
            for block in bytes.chunks_exact_mut(size) {
                for &(offset, factor) in recipe.fields {
                    block[offset..offset + 2].copy_from_slice(&half_bits(factor * spread).to_le_bytes());
                }
            }
        }
    }
}

/// IEEE half-precision bits of the nearest finite value.
fn half_bits(value: f32) -> u16 {
    f16::from_f32(value.clamp(f16::MIN.to_f32(), f16::MAX.to_f32())).to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_kernels::{BlockType, dequantize};

    #[test]
    fn values_have_the_given_deviation() {
        for kind in GgmlType::known().filter(|kind| can_fill(*kind)) {
            let blocks = 400;
            let (length, size) = (kind.block_len().unwrap(), kind.block_bytes().unwrap());
            let mut bytes = vec![0; blocks * size];
            fill(kind, &mut SplitMix64::new(7), 0.02, 0.0, &mut bytes);
            let mut values = vec![0f32; blocks * length];
            dequantize(BlockType::from_ggml_id(kind.id()).unwrap(), &bytes, &mut values).unwrap();
            let count = values.len() as f64;
            let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
            let spread = (values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / count).sqrt();
            assert!(values.iter().all(|v| v.is_finite()), "{}", kind.name());
            assert!((0.01..0.04).contains(&spread), "{}: spread {spread}", kind.name());
            assert!(mean.abs() < 0.006, "{}: mean {mean}", kind.name());
        }
    }
}
