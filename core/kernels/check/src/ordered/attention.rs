//! Attention over cached keys and values.
//!
//! * The query is multiplied by the scale. A **score** has four chains: chain `j`, from 0, takes the elements `j`,
//!   `j + 4`, `j + 8` ... in ascending order, fused; the chains are added in ascending order. Then the soft cap is
//!   applied, then the bias of the distance.
//! * A row takes the keys that it sees, and no others, in ascending **blocks** of 64 at absolute positions. A block
//!   updates the largest score; the sums so far are multiplied by `exp(old - new)`. The **weights**
//!   `exp(score - largest)` of the block are added in sixteen lanes, the key at `16 i + l` in lane `l`, and the lanes
//!   as a [`tree`]; the **values** are one chain per element over ascending keys, fused, which continues from block to
//!   block.
//! * At every 512th position a **part** begins, with empty sums. Parts are merged in ascending order: both sides are
//!   brought to the larger maximum, and the newer is fused onto the older.
//! * At the end a sink is added to the sum of the weights, and everything is multiplied by one over the sum.

use menagerie_kernels::{AttentionBiases, AttentionSequence, AttentionShape, alibi_slope};

use super::functions::{exp, softcap};
use super::rows::tree;
use crate::naive::attention::cache_row;

const BLOCK: usize = 64;
const PART: usize = 512;

/// A wrong order, to show that a test distinguishes it from the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionFault {
    /// A score's elements one after the other, in one chain.
    OneChain,
    /// The chains of a score in halves: 0 with 2, 1 with 3.
    ChainsAsTree,
    /// Blocks that begin at the first key a row sees.
    BlocksOfTheRow,
    /// No parts: one streaming softmax over all blocks.
    NoParts,
    /// The parts from the last to the first.
    PartsBackwards,
    /// The keys of a block from the last to the first.
    KeysBackwards,
    /// Values multiplied, rounded, and then added.
    Unfused,
}

impl AttentionFault {
    /// All of them.
    pub const ALL: [AttentionFault; 7] = [
        AttentionFault::OneChain,
        AttentionFault::ChainsAsTree,
        AttentionFault::BlocksOfTheRow,
        AttentionFault::NoParts,
        AttentionFault::PartsBackwards,
        AttentionFault::KeysBackwards,
        AttentionFault::Unfused,
    ];
}

/// See `menagerie_kernels::attention`, which has the same arguments; a cache of one head serves all.
pub fn attention(
    shape: &AttentionShape,
    sequences: &[AttentionSequence],
    q: &[f32],
    biases: AttentionBiases,
    out: &mut [f32],
) {
    faulty_attention(shape, sequences, (q, biases), out, None);
}

/// Like [`attention`], with a fault.
pub fn faulty_attention(
    shape: &AttentionShape,
    sequences: &[AttentionSequence],
    (q, biases): (&[f32], AttentionBiases),
    out: &mut [f32],
    fault: Option<AttentionFault>,
) {
    for sequence in sequences {
        for row in 0..sequence.row_count {
            for head in 0..shape.heads {
                let at = (sequence.first_row + row) * shape.heads + head;
                let query: Vec<f32> =
                    q[at * shape.key_dim..(at + 1) * shape.key_dim].iter().map(|q| q * shape.scale).collect();
                let head = HeadQuery {
                    shape,
                    sequence,
                    head,
                    position: sequence.first_position + row,
                    biases,
                    fault,
                };
                out[at * shape.value_dim..(at + 1) * shape.value_dim].copy_from_slice(&head.result(&query));
            }
        }
    }
}

/// A head of a row.
struct HeadQuery<'a> {
    shape: &'a AttentionShape,
    sequence: &'a AttentionSequence<'a>,
    head: usize,
    position: usize,
    biases: AttentionBiases<'a>,
    fault: Option<AttentionFault>,
}

/// A softmax that is not finished.
struct SoftmaxPart {
    max: f32,
    sum: f32,
    values: Vec<f32>,
}

impl HeadQuery<'_> {
    fn result(&self, query: &[f32]) -> Vec<f32> {
        let total = self.sequence.first_position + self.sequence.row_count;
        let seen: Vec<usize> = (0..total).filter(|&key| self.shape.mask.sees(self.position, key)).collect();
        let length = if self.fault == Some(AttentionFault::NoParts) { usize::MAX } else { PART };
        let parts = seen.chunk_by(|a, b| a / length == b / length);
        let mut parts: Vec<SoftmaxPart> = parts.map(|keys| self.part(query, keys)).collect();
        if self.fault == Some(AttentionFault::PartsBackwards) {
            parts.reverse();
        }
        let Some(all) = parts.into_iter().reduce(together) else { return Vec::new() };
        let factor = match self.biases.sinks.map(|sinks| sinks[self.head]) {
            None => 1.0 / all.sum,
            Some(sink) => {
                let top = all.max.max(sink);
                exp(all.max - top) / (all.sum * exp(all.max - top) + exp(sink - top))
            }
        };
        all.values.into_iter().map(|value| value * factor).collect()
    }

    fn part(&self, query: &[f32], keys: &[usize]) -> SoftmaxPart {
        let mut part =
            SoftmaxPart { max: f32::NEG_INFINITY, sum: 0.0, values: vec![0.0; self.shape.value_dim] };
        let origin = if self.fault == Some(AttentionFault::BlocksOfTheRow) { keys[0] } else { 0 };
        for block in keys.chunk_by(|a, b| (a - origin) / BLOCK == (b - origin) / BLOCK) {
            self.add_block(&mut part, query, block);
        }
        part
    }

    fn add_block(&self, part: &mut SoftmaxPart, query: &[f32], keys: &[usize]) {
        let scores: Vec<f32> = keys.iter().map(|key| self.score(query, *key)).collect();
        let max = scores.iter().copied().fold(part.max, f32::max);
        let fade = if max == part.max { 1.0 } else { exp(part.max - max) };
        let mut lanes = [0.0; 16];
        let weights: Vec<f32> = scores.iter().map(|score| exp(score - max)).collect();
        for (key, weight) in keys.iter().zip(&weights) {
            lanes[key % 16] += weight;
        }
        (part.max, part.sum) = (max, part.sum * fade + tree(&lanes, None));
        part.values.iter_mut().for_each(|value| *value *= fade);
        let mut order: Vec<usize> = (0..keys.len()).collect();
        if self.fault == Some(AttentionFault::KeysBackwards) {
            order.reverse();
        }
        for at in order {
            let row = cache_row(&self.sequence.values, keys[at], self.stored(self.sequence.values.heads));
            for (value, v) in part.values.iter_mut().zip(row) {
                *value = match self.fault {
                    Some(AttentionFault::Unfused) => weights[at] * v + *value,
                    _ => weights[at].mul_add(v, *value),
                };
            }
        }
    }

    /// Which of the stored heads it reads.
    fn stored(&self, heads: usize) -> usize {
        if heads == 1 { 0 } else { self.head / (self.shape.heads / self.shape.kv_heads) }
    }

    fn score(&self, query: &[f32], key: usize) -> f32 {
        let row = cache_row(&self.sequence.keys, key, self.stored(self.sequence.keys.heads));
        let chains = if self.fault == Some(AttentionFault::OneChain) { 1 } else { 4 };
        let mut sums = [0f32; 4];
        for (at, (q, k)) in query.iter().zip(row).enumerate() {
            sums[at % chains] = q.mul_add(k, sums[at % chains]);
        }
        let [a, b, c, d] = sums;
        let score = match self.fault {
            Some(AttentionFault::ChainsAsTree) => (a + c) + (b + d),
            _ => ((a + b) + c) + d,
        };
        let score = self.shape.softcap.map_or(score, |cap| softcap(cap, score));
        let distance = key as isize - self.position as isize;
        if let Some(bias) = self.shape.alibi {
            let slope = alibi_slope(bias, self.shape.heads, self.head);
            return (-slope).mul_add(distance.unsigned_abs() as f32, score);
        }
        let Some(table) = self.biases.distances else { return score };
        let own = &table[table.len() / self.shape.heads * self.head..][..table.len() / self.shape.heads];
        let reach = own.len() as isize / 2;
        score + own[(distance.clamp(-reach, reach) + reach) as usize]
    }
}

/// Adds the newer part to the older one.
fn together(older: SoftmaxPart, newer: SoftmaxPart) -> SoftmaxPart {
    let max = older.max.max(newer.max);
    let (before, after) = (exp(older.max - max), exp(newer.max - max));
    let add = |(old, new): (f32, f32)| new.mul_add(after, old * before);
    let values = older.values.into_iter().zip(newer.values).map(add).collect();
    SoftmaxPart { max, sum: add((older.sum, newer.sum)), values }
}
