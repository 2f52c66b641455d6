//! Random blocks of every type, and activations.

use menagerie_kernels::{BlockType, KernelError, Matrix, QuantType};
use menagerie_random::SplitMix64;

/// Where the f16 factors of a quantized block are: of the values, then of the minima if it has any.
pub(crate) fn factors(block: BlockType) -> &'static [usize] {
    match block {
        BlockType::Q4_1 | BlockType::Q5_1 | BlockType::Q4_K | BlockType::Q5_K => &[0, 2],
        BlockType::Q2_K => &[80, 82],
        BlockType::Q3_K => &[108],
        BlockType::Q6_K => &[208],
        BlockType::TQ1_0 => &[52],
        BlockType::TQ2_0 => &[64],
        _ => &[0],
    }
}

/// Replaces the factors of a quantized block by others, as the bits of f16: of the values, then of the minima if it has
/// any. The types whose scales are bytes (MXFP4, NVFP4) take the high byte.
pub fn set_factors(quant: QuantType, block: &mut [u8], bits: [u16; 2]) {
    match quant {
        QuantType::MXFP4 => block[0] = (bits[0] >> 8) as u8,
        QuantType::NVFP4 => block[..4].fill((bits[0] >> 8) as u8),
        // The top nibbles of four words.
        QuantType::IQ1_M => {
            for i in 0..4 {
                block[49 + 2 * i] = block[49 + 2 * i] & 15 | (bits[0] >> (4 * i) << 4) as u8;
            }
        }
        _ => {
            for (&at, bits) in factors(quant.into()).iter().zip(bits) {
                block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
}

/// Random bytes with plausible scales: the blocks of `values` values, which must be whole blocks.
pub fn random_blocks(block: BlockType, values: usize, random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..values / block.block_len() * block.block_bytes()).map(|_| random.bits() as u8).collect();
    for chunk in bytes.chunks_exact_mut(block.block_bytes()) {
        let half = ((5 << 10) | (random.bits() & 1023)) as u16 | ((random.bits() & 1) << 15) as u16;
        match block {
            BlockType::F32 => chunk.copy_from_slice(&random.signed().to_le_bytes()),
            BlockType::F16 => chunk.copy_from_slice(&((half & 0x83ff) | 12 << 10).to_le_bytes()),
            BlockType::BF16 => {
                chunk.copy_from_slice(&((random.signed().to_bits() >> 16) as u16).to_le_bytes());
            }
            // Powers of two near 2^-8: no overflows and no subnormal numbers, which cost time.
            BlockType::MXFP4 => chunk[0] = 118 + (random.bits() & 3) as u8,
            BlockType::NVFP4 => chunk[..4].fill(40 + (random.bits() & 7) as u8),
            BlockType::Quant(quant) => set_factors(quant, chunk, [half, half]),
        }
    }
    bytes
}

/// A matrix of random blocks.
pub struct RandomWeights {
    block: BlockType,
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
}

impl RandomWeights {
    /// `rows` rows of `cols` values.
    ///
    /// # Errors
    /// [`KernelError::Shape`]: blocks do not divide `cols`.
    pub fn new(block: BlockType, rows: usize, cols: usize) -> Result<Self, KernelError> {
        let bytes = random_blocks(block, rows * cols, &mut SplitMix64::new(0x9e37_79b9_7f4a_7c15));
        Matrix::new(block, rows, cols, &bytes)?;
        Ok(RandomWeights { block, rows, cols, bytes })
    }

    /// The weights as a matrix.
    ///
    /// # Errors
    /// As [`Self::new`], for columns that were checked.
    pub fn matrix(&self) -> Result<Matrix<'_>, KernelError> {
        Matrix::new(self.block, self.rows, self.cols, &self.bytes)
    }

    /// `rows` rows of activations between -1 and 1.
    pub fn activations(&self, tokens: usize) -> Vec<f32> {
        activations(tokens * self.cols)
    }
}

/// Numbers between -1 and 1, without an obvious pattern.
pub fn activations(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) % 2003) as f32 / 1001.5 - 1.0).collect()
}
