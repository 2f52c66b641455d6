//! What attention adds to its scores: linear or learned biases by distance; and logits without values.

use super::BLOCK;
use super::online_softmax::TILE_ROWS;
use crate::error::{KernelError, check_len};
use crate::simd::{LANES, Simd};
use menagerie_formulas::AttentionShape;

/// What a call adds to its scores besides [`AttentionShape::alibi`].
#[derive(Debug, Clone, Copy, Default)]
pub struct AttentionBiases<'a> {
    /// One logit per head that adds to the softmax's sum and to nothing else (gpt-oss).
    pub sinks: Option<&'a [f32]>,
    /// `[heads, 2 * reach + 1]` with any reach: the bias that is added to the scaled and capped score of a key `d`
    /// positions after the query, at index `reach + d`. Keys that are farther away get the value at the nearer end
    /// (Raffel et al. 2020).
    pub distances: Option<&'a [f32]>,
}

/// The slope of a head, which is subtracted from a score per position of distance (Press et al. 2021):
/// `2^(-max_bias * (head + 1) / n)`, where `n` is the largest power of two up to `heads`; past that, every other slope
/// of twice as many heads.
pub fn alibi_slope(max_bias: f32, heads: usize, head: usize) -> f32 {
    let whole = if heads == 0 { 1 } else { 1 << heads.ilog2() };
    let step = -max_bias / whole as f32;
    let exponent = match head.checked_sub(whole) {
        None => step * (head + 1) as f32,
        Some(more) => 0.5 * step * (2 * more + 1) as f32,
    };
    // From `libm`, which is the same code on every system.
    libm::exp2(f64::from(exponent)) as f32
}

/// Checks that the biases fit the heads.
pub(super) fn check(shape: &AttentionShape, biases: AttentionBiases) -> Result<(), KernelError> {
    if shape.alibi.is_some_and(|bias| !bias.is_finite() || bias <= 0.0) {
        return Err(KernelError::shape("attention: alibi", "its largest bias must be positive"));
    }
    if let Some(sinks) = biases.sinks {
        check_len("attention: sinks", sinks.len(), shape.heads)?;
    }
    let Some(table) = biases.distances else { return Ok(()) };
    let span = table.len() / shape.heads;
    if shape.alibi.is_some() || span.is_multiple_of(2) || table.len() != span * shape.heads {
        let detail = format!(
            "{} values for {} heads: expected an odd number for each head and no ALiBi slopes",
            table.len(),
            shape.heads
        );
        return Err(KernelError::shape("attention: distances", detail));
    }
    Ok(())
}

/// The bias that the distance of a key adds to its score.
pub(super) enum DistanceBias<'a> {
    /// By head: the slope.
    Slopes(Vec<f32>),
    /// The table of [`AttentionBiases::distances`] and the length of a head's row.
    Table(&'a [f32], usize),
}

impl<'a> DistanceBias<'a> {
    pub(super) fn new(shape: &AttentionShape, biases: AttentionBiases<'a>) -> Option<Self> {
        let heads = shape.heads;
        let slopes = |bias| (0..heads).map(|head| alibi_slope(bias, heads, head)).collect();
        match (shape.alibi, biases.distances) {
            (Some(bias), _) => Some(Self::Slopes(slopes(bias))),
            (None, Some(table)) => Some(Self::Table(table, table.len() / heads)),
            (None, None) => None,
        }
    }
}

/// The rows of a strip, for the biases by distance.
#[derive(Clone, Copy)]
pub(super) struct Distance<'a> {
    pub(super) bias: &'a DistanceBias<'a>,
    /// Each row's query head.
    pub(super) heads: &'a [usize; TILE_ROWS],
    /// Position of each row's query, counted from the first key of the block.
    pub(super) positions: &'a [isize; TILE_ROWS],
}

impl Distance<'_> {
    /// Adds a row's biases to its scores of a block.
    #[inline(always)]
    pub(super) fn apply<S: Simd>(&self, s: S, row: usize, scores: &mut [f32; BLOCK]) {
        let (head, position) = (self.heads[row], self.positions[row]);
        match self.bias {
            DistanceBias::Slopes(slopes) => by_slope(s, slopes[head], position as f32, scores),
            DistanceBias::Table(table, span) => {
                from_table(s, &table[head * span..(head + 1) * span], position, scores);
            }
        }
    }
}

/// `score - slope * |key - position|`.
#[inline(always)]
fn by_slope<S: Simd>(s: S, slope: f32, position: f32, scores: &mut [f32; BLOCK]) {
    let (slope, position) = (s.splat(slope), s.splat(position));
    let first = s.load(&std::array::from_fn(|lane| lane as f32));
    for (index, vector) in scores.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let key = s.add(first, s.splat((index * LANES) as f32));
        let value = s.fnma(slope, s.abs(s.sub(key, position)), s.load(vector));
        s.store(vector, value);
    }
}

/// Adds the table's values from the first key's distance on; past its ends, the value at the end.
#[inline(always)]
fn from_table<S: Simd>(s: S, table: &[f32], position: isize, scores: &mut [f32; BLOCK]) {
    let last = table.len() as isize - 1;
    let first = last / 2 - position;
    for (index, vector) in scores.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let from = first + (index * LANES) as isize;
        let inside = usize::try_from(from).ok().and_then(|from| table.get(from..from + LANES));
        let bias = match inside.and_then(|inside| inside.first_chunk::<LANES>()) {
            Some(inside) => s.load(inside),
            None => {
                s.load(&std::array::from_fn(|lane| table[(from + lane as isize).clamp(0, last) as usize]))
            }
        };
        s.store(vector, s.add(s.load(vector), bias));
    }
}
