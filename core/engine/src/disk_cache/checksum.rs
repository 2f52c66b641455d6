//! [`FastChecksum`]: detects damaged bytes as fast as they are read.
//!
//! A cache of a long prompt has a hundred megabytes. On processors without instructions for SHA-256 a hash of them takes
//! longer than reading them, so the rows have this checksum, and SHA-256 covers it together with the rest of the file. It
//! is not cryptographic: it detects damage, not an attacker, who could write a valid file anyway.

/// Words that are mixed at once, so that the processor works on several.
const LANES: usize = 8;

/// Bytes of all lanes.
const STRIDE: usize = 8 * LANES;

/// Odd, so that multiplication loses nothing.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A checksum of 64 bytes. Every step of a lane is a bijection of the lane and of the word that it takes. So a change of
/// bytes that one word of 8 bytes contains always changes the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FastChecksum([u64; LANES]);

impl FastChecksum {
    /// The checksum of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut lanes: [u64; LANES] =
            std::array::from_fn(|lane| FACTOR.wrapping_mul(lane as u64 + 1) ^ bytes.len() as u64);
        let (strides, rest) = bytes.as_chunks::<STRIDE>();
        strides.iter().for_each(|stride| mix(&mut lanes, stride));
        let mut last = [0; STRIDE];
        last[..rest.len()].copy_from_slice(rest);
        mix(&mut lanes, &last);
        Self(lanes)
    }

    /// Its bytes.
    pub(super) fn bytes(self) -> [u8; STRIDE] {
        let mut bytes = [0; STRIDE];
        for (place, lane) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0) {
            *place = lane.to_le_bytes();
        }
        bytes
    }
}

fn mix(lanes: &mut [u64; LANES], stride: &[u8; STRIDE]) {
    for (lane, word) in lanes.iter_mut().zip(stride.as_chunks::<8>().0) {
        *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR).rotate_left(29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_and_every_cut_changes_it() {
        let good: Vec<u8> = (0..3 * STRIDE + 13).map(|at| (at * 7 + at / 5) as u8).collect();
        let expected = FastChecksum::of(&good);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert_ne!(FastChecksum::of(&bad), expected, "bit {bit} of byte {at}");
            }
            assert_ne!(FastChecksum::of(&good[..at]), expected, "cut at {at}");
        }
        let zeros = [0; 4 * STRIDE];
        let of: Vec<_> = (0..zeros.len()).map(|len| FastChecksum::of(&zeros[..len])).collect();
        assert!((1..of.len()).all(|len| of[len] != of[len - 1]));
        let mut swapped = good.clone();
        swapped.swap(3, STRIDE + 3);
        assert_ne!(FastChecksum::of(&swapped), expected);
    }
}
