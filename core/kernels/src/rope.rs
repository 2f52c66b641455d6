//! Rotary position embedding: the cosines and sines once per step, then every head of every layer.

use crate::cpu::Cpu;
use crate::error::{KernelError, check_len};
use crate::pointwise::{check_rows, for_rows};
use crate::simd::{Kernel, LANES, Simd, dispatch, fused};
use menagerie_formulas::RopePairs;

/// How a head rotates.
#[derive(Debug, Clone, Copy)]
pub struct Rope<'a> {
    /// Which elements form a pair.
    pub pairs: RopePairs,
    /// Radians per position, one per pair; the first `2 * inv_freq.len()` elements of a head rotate.
    pub inv_freq: &'a [f32],
    /// Multiplies cosine and sine (YaRN's attention factor); 1 = unchanged.
    pub magnitude: f32,
    /// Elements per head.
    pub head_dim: usize,
}

/// Cosines and sines of the positions of one step: computed once, used by q and k of all layers with the same rope.
#[derive(Debug, Clone, Default)]
pub struct RopeTable {
    pairs: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// For every position and pair the cosine and sine of the angle, times `magnitude`. The angle is the f32 product
    /// `position * inv_freq`, as in HF transformers; its cosine and sine are computed in f64, by code that is the same
    /// on every machine.
    pub fn new(positions: &[u32], inv_freq: &[f32], magnitude: f32) -> RopeTable {
        let count = positions.len() * inv_freq.len();
        let (mut cos, mut sin) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for &position in positions {
            for &frequency in inv_freq {
                let (s, c) = libm::sincos(f64::from(position as f32 * frequency));
                cos.push(c as f32 * magnitude);
                sin.push(s as f32 * magnitude);
            }
        }
        RopeTable { pairs: inv_freq.len(), cos, sin }
    }

    /// Pairs per head.
    pub fn pairs(&self) -> usize {
        self.pairs
    }

    /// Positions in the table.
    pub fn positions(&self) -> usize {
        self.cos.len().checked_div(self.pairs).unwrap_or(0)
    }
}

/// Rotates the heads of `x`, `[T, heads, head_dim]`, in place (Su et al. 2021). Where several tensors share
/// positions, make a `RopeTable` and call `rope_with`.
///
/// # Errors
/// [`KernelError::Shape`]: the lengths do not fit, or there are more pairs than the head has.
pub fn rope(cpu: &Cpu, rope: &Rope, positions: &[u32], x: &mut [f32]) -> Result<(), KernelError> {
    check_table(rope.inv_freq.len(), positions.len(), rope.head_dim, x.len())?;
    let table = RopeTable::new(positions, rope.inv_freq, rope.magnitude);
    rope_with(cpu, &table, rope.pairs, rope.head_dim, x)
}

/// Like `rope`, with a table: row `t` of `x` rotates by the table's position `t`.
///
/// # Errors
/// As [`rope`](rope()).
pub fn rope_with(
    cpu: &Cpu,
    table: &RopeTable,
    pairs: RopePairs,
    head_dim: usize,
    x: &mut [f32],
) -> Result<(), KernelError> {
    let positions = table.positions();
    if table.pairs == 0 {
        return Ok(());
    }
    check_table(table.pairs, positions, head_dim, x.len())?;
    if x.is_empty() {
        return Ok(());
    }
    for_rows(cpu, x, x.len() / positions, &|index, row| {
        let angles = index * table.pairs..(index + 1) * table.pairs;
        let (cos, sin) = (&table.cos[angles.clone()], &table.sin[angles]);
        match pairs {
            RopePairs::Halves => dispatch(cpu, SplitHalves { cos, sin, head_dim, row }),
            RopePairs::Adjacent => dispatch(cpu, Adjacent { cos, sin, head_dim, row }),
        }
    })
}

fn check_table(pairs: usize, positions: usize, head_dim: usize, len: usize) -> Result<(), KernelError> {
    if 2 * pairs > head_dim {
        return Err(KernelError::shape(
            "rope: inv_freq",
            format!("{pairs} pairs in heads of {head_dim} elements"),
        ));
    }
    if positions == 0 {
        return check_len("rope: x", len, 0);
    }
    check_rows("rope: x", len, positions)?;
    check_rows("rope: a row of x", len / positions, head_dim)
}

/// A pair that no whole vector covers, in the same steps.
#[inline(always)]
fn turned([x, y]: [f32; 2], cos: f32, sin: f32) -> (f32, f32) {
    (fused(-y, sin, x * cos), fused(x, sin, y * cos))
}

/// One row whose pairs are half of the rotated part apart.
struct SplitHalves<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
    head_dim: usize,
    row: &'a mut [f32],
}

impl Kernel for SplitHalves<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let pairs = self.cos.len();
        let (cosines, cos_rest) = self.cos.as_chunks::<LANES>();
        let (sines, sin_rest) = self.sin.as_chunks::<LANES>();
        for head in self.row.chunks_exact_mut(self.head_dim) {
            let (first, second) = head[..2 * pairs].split_at_mut(pairs);
            let (firsts, first_rest) = first.as_chunks_mut::<LANES>();
            let (seconds, second_rest) = second.as_chunks_mut::<LANES>();
            for (i, (a, b)) in firsts.iter_mut().zip(seconds).enumerate() {
                let (cos, sin) = (s.load(&cosines[i]), s.load(&sines[i]));
                let (x, y) = (s.load(a), s.load(b));
                s.store(a, s.fnma(y, sin, s.mul(x, cos)));
                s.store(b, s.fma(x, sin, s.mul(y, cos)));
            }
            for (i, (a, b)) in first_rest.iter_mut().zip(second_rest).enumerate() {
                (*a, *b) = turned([*a, *b], cos_rest[i], sin_rest[i]);
            }
        }
    }
}

/// One row whose pairs are adjacent.
struct Adjacent<'a> {
    cos: &'a [f32],
    sin: &'a [f32],
    head_dim: usize,
    row: &'a mut [f32],
}

/// Pairs in one vector.
const PAIRS: usize = LANES / 2;

impl Kernel for Adjacent<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let pairs = self.cos.len();
        let (cosines, cos_rest) = self.cos.as_chunks::<PAIRS>();
        let (sines, sin_rest) = self.sin.as_chunks::<PAIRS>();
        // Vector by vector over all heads: cosine and sine are broadcast once.
        for (i, (cos, sin)) in cosines.iter().zip(sines).enumerate() {
            let (mut cos_pairs, mut sin_pairs) = ([0.0; LANES], [0.0; LANES]);
            for j in 0..PAIRS {
                (cos_pairs[2 * j], cos_pairs[2 * j + 1]) = (cos[j], cos[j]);
                (sin_pairs[2 * j], sin_pairs[2 * j + 1]) = (-sin[j], sin[j]);
            }
            let (cos, sin) = (s.load(&cos_pairs), s.load(&sin_pairs));
            for head in self.row.chunks_exact_mut(self.head_dim) {
                let vector = &mut head[..2 * pairs].as_chunks_mut::<LANES>().0[i];
                let x = s.load(vector);
                s.store(vector, s.fma(s.swap_pairs(x), sin, s.mul(x, cos)));
            }
        }
        let done = cosines.len() * PAIRS;
        for head in self.row.chunks_exact_mut(self.head_dim) {
            for (i, pair) in head[2 * done..2 * pairs].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *pair = turned(*pair, cos_rest[i], sin_rest[i]).into();
            }
        }
    }
}
