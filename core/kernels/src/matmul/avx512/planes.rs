//! Codebooks as planes of bytes: byte `i` of a plane is a part of entry `i`, and 64 indices are looked up at once, 128
//! entries at a time.

use std::arch::x86_64::*;

use super::gemv::load;
use crate::isa::avx512_bytes;

/// A table aligned to a cache line.
#[repr(align(64))]
pub(super) struct AlignedTable<const N: usize>(pub(super) [u8; N]);

/// A codebook as two planes: the first and the second half of each entry, with all values of a half in a byte.
pub(super) struct Planes<const N: usize>(pub(super) [AlignedTable<N>; 2]);

/// The planes of a codebook whose entries have eight values of two bits.
pub(super) const fn eights<const N: usize>(packed: &[u16; N]) -> Planes<N> {
    let (mut low, mut high) = ([0; N], [0; N]);
    let mut i = 0;
    while i < N {
        [low[i], high[i]] = packed[i].to_le_bytes();
        i += 1;
    }
    Planes([AlignedTable(low), AlignedTable(high)])
}

/// The planes of a codebook whose entries have four values of four bits, of which three bits are used.
pub(super) const fn fours<const N: usize>(packed: &[u16; N]) -> Planes<N> {
    let (mut low, mut high) = ([0; N], [0; N]);
    let mut i = 0;
    while i < N {
        let [a, b] = packed[i].to_le_bytes();
        (low[i], high[i]) = (a & 7 | a >> 4 << 3, b & 7 | b >> 4 << 3);
        i += 1;
    }
    Planes([AlignedTable(low), AlignedTable(high)])
}

/// The level of the digit of `bits` bits that begins at bit `shift`, of every number of six bits.
pub(super) const fn digit<const L: usize>(levels: [u8; L], shift: usize) -> AlignedTable<64> {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i] = levels[(i >> shift) % L];
        i += 1;
    }
    AlignedTable(table)
}

/// 64 indices of each of two panels.
pub(super) struct Indices {
    /// Their lower seven bits, and the bits above.
    low: [__m512i; 2],
    /// Bits 7 to 10.
    bits: [[__mmask64; 2]; 4],
}

impl Indices {
    avx512_bytes! {
    /// Indices with these lower eight bits; the lower bits of each byte of `high` are the others.
    #[inline]
    pub(super) fn new(low: [__m512i; 2], high: [__m512i; 2]) -> Indices {
        let bit = |n: i8| high.map(|high| _mm512_test_epi8_mask(high, _mm512_set1_epi8(n)));
        Indices { low, bits: [low.map(|low| _mm512_movepi8_mask(low)), bit(1), bit(2), bit(4)] }
    }
    }

    avx512_bytes! {
    /// Indices of eight bits and a ninth.
    #[inline]
    pub(super) fn of_nine(low: [__m512i; 2], ninth: [__mmask64; 2]) -> Indices {
        Indices { low, bits: [low.map(|low| _mm512_movepi8_mask(low)), ninth, [0; 2], [0; 2]] }
    }
    }

    avx512_bytes! {
    #[inline]
    fn choose(&self, bit: usize, clear: [__m512i; 2], set: [__m512i; 2]) -> [__m512i; 2] {
        [0, 1].map(|i| _mm512_mask_blend_epi8(self.bits[bit][i], clear[i], set[i]))
    }
    }
}

avx512_bytes! {
/// The bytes of a table of 128 at the lower seven bits of 64.
///
/// # Safety
/// 128 readable bytes.
#[inline]
pub(super) unsafe fn of_128(table: *const u8, low: [__m512i; 2]) -> [__m512i; 2] {
    // SAFETY: the promise of the caller.
    let (a, b) = unsafe { (load(table), load(table.add(64))) };
    low.map(|low| _mm512_permutex2var_epi8(a, low, b))
}
}

avx512_bytes! {
#[inline]
unsafe fn of_256(plane: *const u8, x: &Indices) -> [__m512i; 2] {
    // SAFETY: the caller promises so many bytes; this holds for all loads below.
    unsafe { x.choose(0, of_128(plane, x.low), of_128(plane.add(128), x.low)) }
}
}

avx512_bytes! {
#[inline]
unsafe fn of_512(plane: *const u8, x: &Indices) -> [__m512i; 2] {
    // SAFETY: as above.
    unsafe { x.choose(1, of_256(plane, x), of_256(plane.add(256), x)) }
}
}

avx512_bytes! {
#[inline]
unsafe fn of_1024(plane: *const u8, x: &Indices) -> [__m512i; 2] {
    // SAFETY: as above.
    unsafe { x.choose(2, of_512(plane, x), of_512(plane.add(512), x)) }
}
}

impl<const N: usize> AlignedTable<N> {
    avx512_bytes! {
    /// The bytes at 64 indices of each of two panels.
    #[inline]
    pub(super) fn look(&self, x: &Indices) -> [__m512i; 2] {
        const { assert!(N == 256 || N == 512 || N == 1024 || N == 2048) }
        let plane = self.0.as_ptr();
        // SAFETY: as many bytes as each reads.
        unsafe {
            match N {
                256 => of_256(plane, x),
                512 => of_512(plane, x),
                1024 => of_1024(plane, x),
                _ => x.choose(3, of_1024(plane, x), of_1024(plane.add(1024), x)),
            }
        }
    }
    }
}
