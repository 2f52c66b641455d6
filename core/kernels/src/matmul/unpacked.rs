//! Unpacked weights: the form in which the kernels of every instruction set multiply them, whatever their format.

use crate::blocks::{Factors, Format, GROUPS, SUPER, WideFormat};

/// Up to 256 unpacked weights of one row.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Unpacked {
    pub(super) q: [i8; SUPER],
    pub(super) scale: [f32; GROUPS],
    pub(super) min: [f32; GROUPS],
}

impl Unpacked {
    /// Zeros.
    pub(super) const ZERO: Unpacked = Unpacked { q: [0; SUPER], scale: [0.0; GROUPS], min: [0.0; GROUPS] };

    /// Unpacks the blocks of one panel; missing values of the 256 get zero scales.
    #[inline(always)]
    pub(super) fn fill<F: Format>(&mut self, blocks: &[u8]) {
        let mut n = 0;
        for block in blocks.chunks_exact(F::BYTES).take(SUPER / F::LEN) {
            let (q, g) = (n * F::LEN, n * F::LEN / F::GROUP);
            F::expand(block, &mut self.q[q..], &mut self.scale[g..], &mut self.min[g..]);
            n += 1;
        }
        let groups = n * F::LEN / F::GROUP;
        self.scale[groups..].fill(0.0);
        self.min[groups..].fill(0.0);
    }
}

/// The integer scales and minima of one row's 256 weights of a wide format.
#[derive(Clone, Copy)]
pub(super) struct IntegerScales {
    pub(super) scale: [i16; GROUPS],
    pub(super) min: [i16; GROUPS],
    pub(super) factors: Factors,
}

impl IntegerScales {
    /// Zeros.
    pub(super) const ZERO: IntegerScales =
        IntegerScales { scale: [0; GROUPS], min: [0; GROUPS], factors: Factors { d: 0.0, dmin: 0.0 } };

    /// Those of a block.
    #[inline(always)]
    pub(super) fn of<F: WideFormat>(block: &[u8]) -> IntegerScales {
        let mut whole = IntegerScales::ZERO;
        whole.factors = F::whole(block, &mut whole.scale, &mut whole.min);
        whole
    }
}
