//! The codebooks of the IQ formats, unpacked at compile time, and their sign table.

mod one_bit;
mod three_bit;
mod two_bit;

/// Unpacks eight two-bit indices per entry into `levels`, one per byte, lowest first.
const fn eights<const N: usize>(packed: &[u16; N], levels: [i8; 4]) -> [u64; N] {
    let mut out = [0; N];
    let mut n = 0;
    while n < N {
        let mut i = 0;
        while i < 8 {
            out[n] |= (levels[(packed[n] >> (2 * i) & 3) as usize] as u8 as u64) << (8 * i);
            i += 1;
        }
        n += 1;
    }
    out
}

/// Unpacks four four-bit indices per entry into `levels`, one per byte, lowest first.
const fn fours<const N: usize>(packed: &[u16; N], levels: [u8; 8]) -> [u32; N] {
    let mut out = [0; N];
    let mut n = 0;
    while n < N {
        let mut i = 0;
        while i < 4 {
            out[n] |= (levels[(packed[n] >> (4 * i) & 7) as usize] as u32) << (8 * i);
            i += 1;
        }
        n += 1;
    }
    out
}

/// Bit i as all bits of byte i.
const fn sign_masks() -> [u64; 256] {
    let mut out = [0; 256];
    let mut signs = 0;
    while signs < 256 {
        let mut i = 0;
        while i < 8 {
            if signs >> i & 1 == 1 {
                out[signs] |= 0xff << (8 * i);
            }
            i += 1;
        }
        signs += 1;
    }
    out
}

/// The masks of seven sign bits and the eighth, which makes their number even (`ksigns_iq2xs` in ggml-common.h).
const fn even_masks() -> [u64; 128] {
    let (all, mut out) = (sign_masks(), [0; 128]);
    let mut i = 0;
    while i < 128 {
        out[i] = all[i | (i.count_ones() as usize & 1) << 7];
        i += 1;
    }
    out
}

/// The levels of the IQ2 codebooks; the last is not used.
pub(crate) const TWO_BIT_LEVELS: [i8; 4] = [8, 25, 43, 0];
/// The levels of the codebook of IQ3_XXS.
pub(crate) const IQ3_XXS_LEVELS: [u8; 8] = [4, 12, 20, 28, 36, 44, 52, 62];
/// The levels of the codebook of IQ3_S.
pub(crate) const IQ3_S_LEVELS: [u8; 8] = [1, 3, 5, 7, 9, 11, 13, 15];

/// The packed codebook of IQ2_XXS: eight indices of two bits into `TWO_BIT_LEVELS` per entry, lowest first.
pub(crate) static IQ2_XXS_PACKED: [u16; 256] = two_bit::IQ2_XXS;
/// The packed book of IQ2_XS.
pub(crate) static IQ2_XS_PACKED: [u16; 512] = two_bit::IQ2_XS;
/// The packed book of IQ2_S.
pub(crate) static IQ2_S_PACKED: [u16; 1024] = two_bit::IQ2_S;
/// The packed codebook of IQ1_S and IQ1_M: eight values of two bits, plus one, lowest first; sorted.
pub(crate) static IQ1_PACKED: [u16; 2048] = one_bit::IQ1_S;
/// The packed codebook of IQ3_XXS: four indices of four bits into `IQ3_XXS_LEVELS`.
pub(crate) static IQ3_XXS_PACKED: [u16; 256] = three_bit::IQ3_XXS;
/// The packed codebook of IQ3_S: four indices of four bits into `IQ3_S_LEVELS`.
pub(crate) static IQ3_S_PACKED: [u16; 512] = three_bit::IQ3_S;

/// IQ2_XXS: 256 groups of eight.
pub(crate) static IQ2_XXS: [u64; 256] = eights(&two_bit::IQ2_XXS, TWO_BIT_LEVELS);
/// IQ2_XS: 512 groups of eight.
pub(crate) static IQ2_XS: [u64; 512] = eights(&two_bit::IQ2_XS, TWO_BIT_LEVELS);
/// IQ2_S: 1024 groups of eight.
pub(crate) static IQ2_S: [u64; 1024] = eights(&two_bit::IQ2_S, TWO_BIT_LEVELS);
/// IQ3_XXS: 256 groups of four.
pub(crate) static IQ3_XXS: [u32; 256] = fours(&three_bit::IQ3_XXS, IQ3_XXS_LEVELS);
/// IQ3_S: 512 groups of four.
pub(crate) static IQ3_S: [u32; 512] = fours(&three_bit::IQ3_S, IQ3_S_LEVELS);
/// IQ1_S and IQ1_M: 2048 groups of eight, times eight so that the shift of an eighth is an integer.
pub(crate) static IQ1_TIMES_8: [u64; 2048] = eights(&one_bit::IQ1_S, [-8, 0, 8, 0]);
/// Masks by the lower seven bits of a sign byte.
pub(crate) static EVEN_MASKS: [u64; 128] = even_masks();
/// Sign bytes with every bit widened to a byte.
pub(crate) static SIGN_MASKS: [u64; 256] = sign_masks();
