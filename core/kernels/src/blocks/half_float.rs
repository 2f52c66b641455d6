//! The two 16-bit float formats, in plain integer and float operations that vectorise.

/// An IEEE half as f32: exact, subnormals, infinities and NaN included.
#[inline(always)]
pub(crate) fn f16_to_f32(half: u16) -> f32 {
    // The exponent field is moved up by a multiplication with 2^112, which also normalises subnormals.
    let magnitude = f32::from_bits(u32::from(half & 0x7fff) << 13) * f32::from_bits((254 - 15) << 23);
    let special = if magnitude >= f32::from_bits((127 + 16) << 23) { 255 << 23 } else { 0 };
    f32::from_bits(magnitude.to_bits() | special | u32::from(half & 0x8000) << 16)
}

/// A bfloat16 as f32: exact, its bits are the upper half.
#[inline(always)]
pub(crate) fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// The f16 stored at `at`, as f32; zero past the end.
#[inline(always)]
pub(crate) fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f16_to_f32(u16_at(bytes, at))
}

/// The little-endian u16 stored at `at`; zero past the end.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(&[a, b]) => u16::from_le_bytes([a, b]),
        _ => 0,
    }
}

/// The little-endian u32 stored at `at`; zero past the end.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}
