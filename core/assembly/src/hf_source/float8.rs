//! 8-bit floats with factors, as DeepSeek-V3 and Mistral publish weights.
//!
//! A weight is `e4m3(byte) * factor`, the factor one of the tensor, of a row, or of a block of rows and columns
//! (`Fp8Dequantize` of transformers 5.23, `weight_dequant_kernel` of DeepSeek-V3's kernel.py).

use super::stored::{Stored, shape_of};
use menagerie_loaders::{Dtype, SafetensorsTensor};
use std::sync::LazyLock;

/// The value of every byte: sign, 4 bits of exponent with bias 7, 3 bits of mantissa, no infinity (OFP8, E4M3).
static VALUES: LazyLock<[f32; 256]> = LazyLock::new(|| std::array::from_fn(|byte| e4m3(byte as u8)));

fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    let magnitude = match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => mantissa / 8.0 * (-6.0_f32).exp2(),
        _ => (1.0 + mantissa / 8.0) * ((exponent - 7) as f32).exp2(),
    };
    if byte & 0x80 == 0 { magnitude } else { -magnitude }
}

/// An f16 as f32.
pub(super) fn from_f16(bits: u16) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        31 if bits & 1023 == 0 => f32::INFINITY,
        31 => f32::NAN,
        0 => mantissa * (-24.0_f32).exp2(),
        _ => (1.0 + mantissa / 1024.0) * ((exponent - 15) as f32).exp2(),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// Factors as f32.
fn factors(scale: &SafetensorsTensor, bytes: &[u8]) -> Result<Vec<f32>, String> {
    let half = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
    Ok(match scale.dtype() {
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::BF16 => bytes.chunks_exact(2).map(|b| f32::from_bits(u32::from(half(b)) << 16)).collect(),
        Dtype::F16 => bytes.chunks_exact(2).map(|b| from_f16(half(b))).collect(),
        // A power of two by its exponent (OCP MX, E8M0).
        Dtype::F8_E8M0 => bytes.iter().map(|byte| (f32::from(*byte) - 127.0).exp2()).collect(),
        other => return Err(format!("its factors \"{}\" are {other}; floats are wanted", scale.name())),
    })
}

/// A weight times its factors, in f32; `block` is how many rows and columns share one where they are a matrix.
pub(super) fn decode(
    (tensor, bytes): (&SafetensorsTensor, &[u8]),
    (scale, scale_bytes): (&SafetensorsTensor, &[u8]),
    block: Option<[usize; 2]>,
) -> Result<Stored, String> {
    let (shape, scale_shape) = (shape_of(tensor)?, shape_of(scale)?);
    let factors = factors(scale, scale_bytes)?;
    let (rows, cols) = match shape[..] {
        [rows, cols] => (rows, cols),
        _ => return Err(format!("8-bit floats of shape {shape:?}; a matrix is wanted")),
    };
    let [high, wide] = match (&scale_shape[..], block) {
        ([] | [1] | [1, 1], _) => [rows.max(1), cols.max(1)],
        ([count] | [count, 1], _) if *count == rows => [1, cols.max(1)],
        ([down, across], Some([high, wide]))
            if *down == rows.div_ceil(high) && *across == cols.div_ceil(wide) =>
        {
            [high, wide]
        }
        _ => {
            return Err(format!(
                "its factors \"{}\" of shape {scale_shape:?} fit neither the tensor, nor its {rows} rows, nor blocks of {}",
                scale.name(),
                block.map_or("a size that quantization_config states".to_owned(), |[high, wide]| format!(
                    "{high} x {wide}"
                ))
            ));
        }
    };
    let across = cols.div_ceil(wide);
    let mut values = Vec::with_capacity(bytes.len());
    for (row, line) in bytes.chunks_exact(cols.max(1)).enumerate() {
        for (at, part) in line.chunks(wide).enumerate() {
            let factor = factors.get(row / high * across + at).copied().unwrap_or(f32::NAN);
            values.extend(part.iter().map(|byte| VALUES[usize::from(*byte)] * factor));
        }
    }
    Ok(Stored::of_values(shape, &values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_the_values_of_the_format() {
        // OCP 8-bit floating point specification, table 2.
        for (byte, value) in [
            (0x00, 0.0),
            (0x01, 2.0_f32.powi(-9)),
            (0x07, 0.875 * 2.0_f32.powi(-6)),
            (0x08, 2.0_f32.powi(-6)),
        ] {
            assert_eq!(e4m3(byte), value, "{byte:#x}");
        }
        assert_eq!((e4m3(0x38), e4m3(0x7e), e4m3(0xfe), e4m3(0xb8)), (1.0, 448.0, -448.0, -1.0));
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
    }

    #[test]
    fn halves_are_the_values_of_the_format() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (1, 2.0_f32.powi(-24)), (0x3555, 0.333_251_95)]
        {
            assert_eq!(from_f16(bits), value, "{bits:#x}");
        }
        assert!(from_f16(0x7c00).is_infinite() && from_f16(0x7c01).is_nan());
    }
}
