//! The instruction-set attributes, and instructions that `std::arch` does not offer in stable Rust.

use std::arch::aarch64::*;
use std::arch::asm;

/// Puts the target features of the byte products on a function.
macro_rules! dotprod {
    ($($item:tt)*) => {
        #[target_feature(enable = "neon,dotprod")]
        $($item)*
    };
}
pub(super) use dotprod;

/// Puts the target features of the matrix products of bytes on a function.
macro_rules! i8mm {
    ($($item:tt)*) => {
        #[target_feature(enable = "neon,i8mm")]
        $($item)*
    };
}
pub(super) use i8mm;

dotprod! {
/// Adds to each dword the four products of its bytes (`SDOT`).
#[inline]
pub(super) fn dot(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: works on registers alone; the function's target feature is the instruction's.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}
}

dotprod! {
/// Like `dot`, with the four bytes of dword `LANE` (0 to 3) of `b` for all dwords of `a`.
#[inline]
pub(super) fn dot_lane<const LANE: i32>(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: works on registers alone; the function's target feature is the instruction's.
    unsafe {
        asm!(
            "sdot {sum:v}.4s, {a:v}.16b, {b:v}.4b[{lane}]",
            sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b, lane = const LANE,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}
}

i8mm! {
/// Adds the products of the two rows of eight bytes in `a` with those in `b` (`SMMLA`): a0 b0, a0 b1, a1 b0, a1 b1.
#[inline]
pub(super) fn square(sum: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    // SAFETY: works on registers alone; the function's target feature is the instruction's.
    unsafe {
        asm!(
            "smmla {sum:v}.4s, {a:v}.16b, {b:v}.16b",
            sum = inout(vreg) sum, a = in(vreg) a, b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    sum
}
}

/// Four f16, given as bits, in f32 (`FCVTL`, which every aarch64 processor has).
#[target_feature(enable = "neon")]
#[inline]
pub(super) fn halves_to_floats(bits: uint16x4_t) -> float32x4_t {
    let out: float32x4_t;
    // SAFETY: works on registers alone; the instruction belongs to the target's baseline.
    unsafe {
        asm!(
            "fcvtl {out:v}.4s, {bits:v}.4h",
            out = lateout(vreg) out, bits = in(vreg) bits,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    out
}
