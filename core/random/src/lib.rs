//! [`SplitMix64`]: reproducible pseudo-random numbers, for random weights, for tests, and for the seeds of the
//! generator that samples tokens. Not for secrets.
#![forbid(unsafe_code)]

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). Equal seeds return equal
/// numbers on every machine.
///
/// ```
/// use menagerie_random::SplitMix64;
///
/// let mut random = SplitMix64::new(7);
/// let die = 1 + random.below(6);
/// assert!((1..=6).contains(&die));
/// assert_eq!(SplitMix64::new(7).bits(), SplitMix64::new(7).bits());
/// ```
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..limit`; 0 if `limit` is 0. The bias is below `limit / 2^64`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit.max(1) as u64) as usize
    }

    /// Uniform in `[-1, 1)`, in steps of 2^-23.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// `count` values, uniform in `[center - spread, center + spread)`.
    pub fn values(&mut self, count: usize, center: f32, spread: f32) -> Vec<f32> {
        (0..count).map(|_| center + spread * self.signed()).collect()
    }

    /// `count` token ids below `vocabulary`.
    pub fn tokens(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(vocabulary) as u32).collect()
    }

    /// Fills a slice with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }

    /// One item of a list, or `None` if the list is empty.
    pub fn choose<'a, T: ?Sized>(&mut self, items: &'a [&'a T]) -> Option<&'a T> {
        items.get(self.below(items.len())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the seed 1234567, as the authors' C code prints them
    /// (<https://prng.di.unimi.it/splitmix64.c>).
    #[test]
    fn numbers_are_those_of_the_published_generator() {
        let mut random = SplitMix64::new(1_234_567);
        let found: Vec<u64> = (0..5).map(|_| random.bits()).collect();
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn numbers_stay_within_their_limits() {
        let mut random = SplitMix64::new(3);
        assert!((0..10_000).all(|_| random.below(7) < 7 && (-1.0..1.0).contains(&random.signed())));
        assert_eq!(random.below(0), 0);
        assert!(random.choose::<str>(&[]).is_none());
        let mut bytes = [0; 11];
        random.fill(&mut bytes);
        assert!(bytes[8..].iter().any(|byte| *byte != 0), "the last bytes are filled too");
    }
}
