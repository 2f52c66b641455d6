//! Block types that candle lacks, written as Q8_0 if that preserves every value.

use candle_core::quantized::GgmlDType;
use gguf_file::GgmlType;
use half::f16;

/// Values of a Q8_0 block.
const LEN: usize = 32;
/// Bytes of a Q8_0 block: an f16 scale, then 32 signed bytes.
const BYTES: usize = 34;

/// Whether a type has one scale per whole number of Q8_0 blocks, so that its values can be Q8_0's.
pub(crate) fn has_scale_of_q8_0(block: GgmlType) -> bool {
    [GgmlType::IQ4_NL, GgmlType::MXFP4, GgmlType::TQ1_0, GgmlType::TQ2_0].contains(&block)
}

/// The type of the blocks that [`to_q8_0`] writes.
pub(crate) const Q8_0: GgmlDType = GgmlDType::Q8_0;

/// The same values as Q8_0 blocks; `None` if one of them would change.
///
/// `values` are the dequantized values of `bytes`, whole blocks of `block`.
pub(crate) fn to_q8_0(block: GgmlType, bytes: &[u8], values: &[f32]) -> Option<Vec<u8>> {
    let (len, size) = (block.block_len()?, block.block_bytes()?);
    let mut out = Vec::with_capacity(values.len() / LEN * BYTES);
    for (bytes, values) in bytes.chunks_exact(size).zip(values.chunks_exact(len)) {
        let scale = scale(block, bytes)?;
        for values in values.chunks_exact(LEN) {
            out.extend(scale.to_le_bytes());
            for value in values {
                out.push(step(*value, scale.to_f32())? as u8);
            }
        }
    }
    Some(out)
}

/// The scale of a block, if f16 holds it; positions as in ggml-common.h.
fn scale(block: GgmlType, bytes: &[u8]) -> Option<f16> {
    let half = |at: usize| Some(f16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    match block {
        GgmlType::IQ4_NL => half(0),
        GgmlType::TQ1_0 => half(52),
        GgmlType::TQ2_0 => half(64),
        // A power of two, over levels that are twice those of E2M1.
        GgmlType::MXFP4 => {
            let scale = 2f32.powi(i32::from(*bytes.first()?) - 128);
            Some(f16::from_f32(scale)).filter(|half| half.to_f32() == scale)
        }
        _ => None,
    }
}

/// `q` with `scale * q == value`.
fn step(value: f32, scale: f32) -> Option<i8> {
    if value == 0.0 {
        return scale.is_finite().then_some(0);
    }
    let step = (value / scale).round();
    (step.abs() <= 127.0 && scale * step == value).then_some(step as i8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_exact_or_refused() {
        assert_eq!(step(-12.7, 0.1), Some(-127));
        assert_eq!(step(0.0, 0.0), Some(0));
        for (value, scale) in [(1.0, 0.0), (1.0, f32::NAN), (f32::INFINITY, 1.0), (0.15, 0.1), (128.0, 1.0)] {
            assert_eq!(step(value, scale), None, "{value} {scale}");
        }
    }

    #[test]
    fn a_scale_outside_f16_is_refused() {
        let block = |exponent: u8| {
            let mut bytes = vec![exponent];
            bytes.extend([0x21; 16]);
            bytes
        };
        assert_eq!(scale(GgmlType::MXFP4, &block(128)), Some(f16::ONE));
        assert_eq!(scale(GgmlType::MXFP4, &block(104)), Some(f16::from_f32(2f32.powi(-24))));
        assert_eq!(scale(GgmlType::MXFP4, &block(103)), None);
        assert_eq!(scale(GgmlType::MXFP4, &block(144)), None);
    }
}
