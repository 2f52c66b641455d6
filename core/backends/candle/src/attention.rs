//! Attention over stored keys and values, composed of candle's operations.

#[cfg(test)]
mod tests;

use crate::backend::CandleBackend;
use crate::masks::{MaskShape, Masks, span};
use crate::pointwise::softcap;
use crate::states::CandleStates;
use crate::tensors::TensorResult;
use candle_core::{D, Device, Tensor};
use candle_nn::ops;
use menagerie_kernels::alibi_slope;
use menagerie_model::{
    AttentionBiases, AttentionShape, AttentionStates, ModelError, Param, Result, Rows, SequenceRows,
    StateStep,
};
use std::ops::Range;

/// The most scores at once, 64 MiB of f32: queries are split into tiles that stay below it.
pub(crate) const SCORES: usize = 1 << 24;

/// The attention of one sequence in one step.
pub(crate) struct ScoredAttention<'a> {
    pub(crate) shape: &'a AttentionShape,
    /// `[heads]`.
    pub(crate) sinks: Option<&'a Tensor>,
    /// `[heads, 2 * reach + 1]`.
    pub(crate) distances: Option<&'a Tensor>,
    pub(crate) masks: &'a Masks,
    /// The most scores at once; see [`SCORES`].
    pub(crate) scores: usize,
}

impl ScoredAttention<'_> {
    /// The mixed values `[T, heads * value_dim]` of queries `[T, heads * key_dim]` at `positions`, over `keys`
    /// `[kv_heads, S, key_dim]` and `values` `[kv_heads, S, value_dim]` of the positions from `first_key` on.
    pub(crate) fn of_sequence(
        &self,
        query: &Tensor,
        positions: Range<usize>,
        [keys, values]: [&Tensor; 2],
        first_key: usize,
    ) -> TensorResult {
        let (heads, total) = (self.shape.heads, positions.end);
        let tile = (self.scores / (heads * keys.dim(1)?).max(1)).clamp(1, positions.len().max(1));
        let mut parts = Vec::with_capacity(positions.len().div_ceil(tile));
        for start in positions.clone().step_by(tile) {
            let queries = start..positions.end.min(start + tile);
            let shown = span(self.shape.mask, &queries, total);
            let (skipped, count) = (shown.start - first_key, shown.len());
            let keys = keys.narrow(1, skipped, count)?;
            let values = values.narrow(1, skipped, count)?;
            let query = query.narrow(0, start - positions.start, queries.len())?;
            let seen = MaskShape { mask: self.shape.mask, queries, keys: shown, total };
            parts.push(self.tile(&query, [&keys, &values], &seen)?);
        }
        Tensor::cat(&parts, 0)
    }

    /// Query heads that share a key head are rows of one product, so that no key is repeated.
    fn tile(&self, query: &Tensor, [keys, values]: [&Tensor; 2], seen: &MaskShape) -> TensorResult {
        let AttentionShape { heads, kv_heads, key_dim, value_dim, scale, softcap: cap, .. } = *self.shape;
        let (rows, group, shown) = (seen.queries.len(), heads / kv_heads, seen.keys.len());
        let query = query.reshape((rows, heads, key_dim))?.transpose(0, 1)?.contiguous()?;
        let query = query.affine(f64::from(scale), 0.0)?.reshape((kv_heads, group * rows, key_dim))?;
        let scores = query.matmul(&keys.t()?)?.reshape((heads, rows, shown))?;
        let scores = match cap {
            Some(cap) => softcap(&scores, cap)?,
            None => scores,
        };
        let scores = match self.shape.alibi {
            Some(bias) => (scores - distances(bias, heads, seen, query.device())?)?,
            None => scores,
        };
        let scores = match self.distances {
            Some(table) => (scores + learned(table, heads, seen)?)?,
            None => scores,
        };
        let scores = match self.masks.get(seen, scores.device())? {
            Some(mask) => scores.broadcast_add(&mask)?,
            None => scores,
        };
        let weights = match self.sinks {
            Some(sinks) => softmax_with_sinks(&scores, &sinks.reshape((heads, 1, 1))?)?,
            None => ops::softmax_last_dim(&scores)?,
        };
        let mixed = weights.reshape((kv_heads, group * rows, shown))?.matmul(values)?;
        let mixed = mixed.reshape((heads, rows, value_dim))?.transpose(0, 1)?.contiguous()?;
        mixed.reshape((rows, heads * value_dim))
    }
}

/// The bias by distance that is subtracted from the scores of each head, `[heads, queries, keys]` (Press et al., 2021).
fn distances(max_bias: f32, heads: usize, seen: &MaskShape, device: &Device) -> TensorResult {
    let slopes: Vec<f32> = (0..heads).map(|head| alibi_slope(max_bias, heads, head)).collect();
    let slopes = Tensor::from_vec(slopes, (heads, 1, 1), device)?;
    let distance = |query: usize| seen.keys.clone().map(move |key| query.abs_diff(key) as f32);
    let distances: Vec<f32> = seen.queries.clone().flat_map(distance).collect();
    let shape = (1, seen.queries.len(), seen.keys.len());
    slopes.broadcast_mul(&Tensor::from_vec(distances, shape, device)?)
}

/// The biases of a table `[heads, 2 * reach + 1]` by distance, `[heads, queries, keys]`.
fn learned(table: &Tensor, heads: usize, seen: &MaskShape) -> TensorResult {
    let table = table.reshape((heads, ()))?;
    let last = table.dim(1)? - 1;
    let at = |query: usize, key: usize| (last / 2 + key).saturating_sub(query).min(last) as u32;
    let indices = seen.queries.clone().flat_map(|query| seen.keys.clone().map(move |key| at(query, key)));
    let indices: Vec<u32> = indices.collect();
    let indices = Tensor::from_vec(indices, (seen.queries.len() * seen.keys.len(),), table.device())?;
    table.index_select(&indices, 1)?.reshape((heads, seen.queries.len(), seen.keys.len()))
}

/// Softmax over the last dimension of `scores` `[heads, T, S]` and one more logit per head, which has no value.
fn softmax_with_sinks(scores: &Tensor, sinks: &Tensor) -> TensorResult {
    let largest = scores.max_keepdim(D::Minus1)?.broadcast_maximum(sinks)?;
    let powers = scores.broadcast_sub(&largest)?.exp()?;
    let sum = (powers.sum_keepdim(D::Minus1)? + sinks.broadcast_sub(&largest)?.exp()?)?;
    powers.broadcast_div(&sum)
}

impl CandleBackend {
    /// See [`menagerie_model::Backend::attention`].
    pub(crate) fn attend(
        &self,
        shape: &AttentionShape,
        states: AttentionStates,
        [query, key, value]: [&Rows; 3],
        biases: AttentionBiases,
        step: StateStep,
    ) -> Result<Rows> {
        check(shape)?;
        let (rows, width) = (query.rows(), shape.heads * shape.value_dim);
        query.expect_cols(shape.heads * shape.key_dim, "queries")?;
        key.expect_shape(rows, shape.kv_heads * shape.key_dim, "keys")?;
        value.expect_shape(rows, shape.kv_heads * shape.value_dim, "values")?;
        let AttentionBiases { sinks, distances } = biases;
        let sinks = sinks.map(|sinks| self.vector_of(sinks, shape.heads, "sinks")).transpose()?;
        let distances = distances.map(|table| self.distances_of(table, shape)).transpose()?;
        let (Some(query), Some(key), Some(value)) =
            (self.tensor(query)?, self.tensor(key)?, self.tensor(value)?)
        else {
            return Ok(Self::empty(rows, width));
        };
        let attention = ScoredAttention { shape, sinks, distances, masks: &self.masks, scores: SCORES };
        let (tables, memory) = step.states.parts_mut::<CandleStates>()?;
        let mut parts = Vec::with_capacity(step.layout.sequences().len());
        for part in step.layout.sequences() {
            let positions = part.first_position..part.first_position + part.rows.len();
            let shown = span(shape.mask, &positions, positions.end);
            let mut stored = Vec::with_capacity(2);
            for (state, rows) in [(states.keys, &key), (states.values, &value)] {
                let pages = tables.pages(state, part.sequence)?;
                memory.write(state, pages, positions.start, &self.rows_of(rows, part)?)?;
                stored.push(memory.rows(state, pages, shown.clone())?);
            }
            let query = self.rows_of(&query, part)?;
            let mixed = attention.of_sequence(&query, positions, [&stored[0], &stored[1]], shown.start);
            parts.push(mixed.map_err(|error| self.failed(error))?);
        }
        self.rows(Tensor::cat(&parts, 0))
    }

    /// The biases by distance, an odd number for each head.
    fn distances_of<'a>(&self, table: &'a Param, shape: &AttentionShape) -> Result<&'a Tensor> {
        let len = table.shape().cols;
        let span = len / shape.heads;
        if span.is_multiple_of(2) || shape.alibi.is_some() {
            return Err(ModelError::Shape {
                what: "attention: biases by distance".to_owned(),
                expected: format!("an odd number for each of {} heads, and no alibi", shape.heads),
                found: format!("{len} values"),
            });
        }
        self.vector_of(table, span * shape.heads, "biases by distance")
    }

    /// The rows of one sequence.
    pub(crate) fn rows_of(&self, rows: &Tensor, part: &SequenceRows) -> Result<Tensor> {
        rows.narrow(0, part.rows.start, part.rows.len()).map_err(|error| self.failed(error))
    }
}

/// Refuses shapes for which no tensor of scores can be made.
fn check(shape: &AttentionShape) -> Result<()> {
    let AttentionShape { heads, kv_heads, key_dim, value_dim, softcap, mask, .. } = *shape;
    let empty = kv_heads == 0 || key_dim == 0 || value_dim == 0 || heads == 0;
    if empty
        || !heads.is_multiple_of(kv_heads)
        || mask.window() == Some(0)
        || softcap.is_some_and(|cap| cap <= 0.0)
    {
        return Err(ModelError::Shape {
            what: "attention".to_owned(),
            expected: "heads that key heads divide, elements, a window and a cap above 0".to_owned(),
            found: format!("{shape:?}"),
        });
    }
    Ok(())
}
