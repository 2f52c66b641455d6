//! The values of small float tensors as f32.

use menagerie_loaders::{Dtype, SafetensorsTensor};

/// An f16 as f32.
pub(super) fn from_f16(bits: u16) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        31 if bits & 1023 == 0 => f32::INFINITY,
        31 => f32::NAN,
        0 => mantissa * libm::scalbnf(1.0, -24),
        _ => (1.0 + mantissa / 1024.0) * libm::scalbnf(1.0, exponent - 15),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// All numbers of a tensor.
///
/// # Errors
/// The tensor is not of floats.
pub(super) fn floats(tensor: &SafetensorsTensor, bytes: &[u8]) -> Result<Vec<f32>, String> {
    let half = |b: &[u8]| u16::from_le_bytes([b[0], b[1]]);
    Ok(match tensor.dtype() {
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        Dtype::BF16 => bytes.chunks_exact(2).map(|b| f32::from_bits(u32::from(half(b)) << 16)).collect(),
        Dtype::F16 => bytes.chunks_exact(2).map(|b| from_f16(half(b))).collect(),
        // A power of two by its exponent (OCP MX, E8M0).
        Dtype::F8_E8M0 => bytes.iter().map(|byte| libm::scalbnf(1.0, i32::from(*byte) - 127)).collect(),
        other => return Err(format!("tensor \"{}\": expected floats, found {other}", tensor.name())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
