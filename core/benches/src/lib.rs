//! Random weights and activations for measuring the kernels.

use menagerie_kernels::{BlockType, KernelError, Matrix};

/// A number of columns that is no whole number of blocks.
#[derive(Debug)]
pub struct WeightError;

impl std::fmt::Display for WeightError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the columns are no whole number of blocks")
    }
}

impl std::error::Error for WeightError {}

/// Random blocks of a type whose values are finite.
pub struct RandomWeights {
    block: BlockType,
    rows: usize,
    cols: usize,
    bytes: Vec<u8>,
}

impl RandomWeights {
    /// `rows` rows of `cols` values; an error if `cols` is no whole number of blocks.
    pub fn new(block: BlockType, rows: usize, cols: usize) -> Result<Self, WeightError> {
        let row_bytes = block.row_bytes(cols).ok_or(WeightError)?;
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut bytes = vec![0u8; row_bytes * rows];
        for chunk in bytes.chunks_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Clearing a bit of every other byte's exponent keeps all 16-bit scales finite.
            let value = (state & 0xbfbf_bfbf_bfbf_bfbf).to_le_bytes();
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
        if block == BlockType::MXFP4 {
            // Powers of two near 2^-8: no overflows and no subnormal numbers, which cost time.
            bytes.chunks_mut(block.block_bytes()).for_each(|block| block[0] = 119);
        }
        Ok(RandomWeights { block, rows, cols, bytes })
    }

    /// The weights as a matrix.
    pub fn matrix(&self) -> Result<Matrix<'_>, KernelError> {
        Matrix::new(self.block, self.rows, self.cols, &self.bytes)
    }

    /// So many rows of activations between -1 and 1.
    pub fn activations(&self, tokens: usize) -> Vec<f32> {
        (0..tokens * self.cols).map(|i| ((i * 7919) % 2003) as f32 / 1001.5 - 1.0).collect()
    }
}
