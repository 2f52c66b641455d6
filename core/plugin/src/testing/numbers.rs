//! [`RandomNumbers`]: reproducible pseudo-random numbers.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct RandomNumbers {
    state: u64,
}

impl RandomNumbers {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end.max(1)
    }

    /// A number from -1 up to 1.
    pub fn real(&mut self) -> f32 {
        ((self.bits() >> 40) as f32 / (1u32 << 23) as f32) - 1.0
    }

    /// So many numbers from `-scale` up to `scale`.
    pub fn reals(&mut self, len: usize, scale: f32) -> Vec<f32> {
        (0..len).map(|_| self.real() * scale).collect()
    }
}
