//! [`Generator`]: random numbers that are the same for a seed on every machine and in every version.
//!
//! xoshiro256++ (Blackman and Vigna, 2019), its state filled by SplitMix64 (Steele, Lea and Flood, 2014) as its authors
//! recommend.

use menagerie_random::SplitMix64;

/// A xoshiro256++ generator.
#[derive(Clone, Debug)]
pub struct Generator {
    state: [u64; 4],
}

/// Mixes the bits of a number.
pub(super) fn mixed(value: u64) -> u64 {
    SplitMix64::new(value).bits()
}

impl Generator {
    /// The generator with this seed.
    pub fn new(seed: u64) -> Self {
        let mut seeds = SplitMix64::new(seed);
        Self { state: std::array::from_fn(|_| seeds.bits()) }
    }

    /// The generator of stream number `part` of a seed. The streams of a seed are independent.
    pub(crate) fn stream(seed: u64, part: u64) -> Self {
        Self::new(SplitMix64::new(seed ^ part.wrapping_mul(0xd134_2543_de82_ef95)).bits())
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`, a multiple of 2^-53.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..limit`; 0 if `limit` is 0. The bias of the multiplication is below 2^-32 for 32-bit limits.
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u32
    }
}

/// A seed from the clock, for requests without one.
pub(super) fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = since.as_nanos() as u64 ^ (u64::from(std::process::id()) << 32);
    // 32 bits: short enough to type back in.
    SplitMix64::new(seed).bits() >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xoshiro_gives_the_published_sequence() {
        // The test vector of the `rand_xoshiro` crate, made with the authors' C code.
        let mut generator = Generator { state: [1, 2, 3, 4] };
        let expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205];
        for value in expected {
            assert_eq!(generator.bits(), value);
        }
    }

    #[test]
    fn split_mix_gives_the_published_sequence() {
        // The test vector published with the algorithm for the seed 1234567.
        let mut generator = SplitMix64::new(1234567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        for value in expected {
            assert_eq!(generator.bits(), value);
        }
    }

    #[test]
    fn uniform_numbers_stay_in_range_and_spread() {
        let mut generator = Generator::new(7);
        let mut bins = [0usize; 10];
        for _ in 0..10_000 {
            let value = generator.uniform();
            assert!((0.0..1.0).contains(&value));
            bins[(value * 10.0) as usize] += 1;
        }
        assert!(bins.iter().all(|&count| (850..1150).contains(&count)), "{bins:?}");
    }

    #[test]
    fn parts_of_a_seed_differ() {
        assert_ne!(Generator::stream(1, 0).bits(), Generator::stream(1, 1).bits());
        assert_eq!(Generator::stream(1, 1).bits(), Generator::stream(1, 1).bits());
    }
}
