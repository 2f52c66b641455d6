//! Numbers that are the same on every machine.

/// SplitMix64 (Steele et al., 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A sequence that depends on the seed alone.
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

    /// Uniform in `0..below`.
    pub fn below(&mut self, below: usize) -> usize {
        (self.bits() % below as u64) as usize
    }

    /// Uniform in `[-1, 1)`.
    pub fn signed(&mut self) -> f32 {
        ((self.bits() >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }

    /// `count` values, uniform in `[center - spread, center + spread)`.
    pub fn values(&mut self, count: usize, center: f32, spread: f32) -> Vec<f32> {
        (0..count).map(|_| center + spread * self.signed()).collect()
    }

    /// `count` token ids below `vocabulary`.
    pub fn tokens(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(vocabulary) as u32).collect()
    }
}
