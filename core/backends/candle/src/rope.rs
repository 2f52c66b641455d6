//! Rotary positions: tables of cosines and sines, and the rotation of heads.

use crate::tensors::TensorResult;
use candle_core::{D, Device, Tensor};
use candle_nn::rotary_emb;
use menagerie_model::RopePairs;

/// Cosines and sines of consecutive rows, `[T, 1, pairs]` each: every row is a batch entry of its own to candle, which
/// spares the transposes to heads and back.
pub(crate) struct RopeAngles {
    cos: Tensor,
    sin: Tensor,
    pub(crate) rows: usize,
    pub(crate) pairs: usize,
}

impl RopeAngles {
    /// The angle is the f32 product of position and frequency, as in HF transformers; cosine and sine are computed in
    /// f64.
    pub(crate) fn new(
        positions: &[u32],
        frequencies: &[f32],
        magnitude: f32,
        device: &Device,
    ) -> TensorResult<Self> {
        let (rows, pairs) = (positions.len(), frequencies.len());
        let (mut cos, mut sin) = (Vec::with_capacity(rows * pairs), Vec::with_capacity(rows * pairs));
        for &position in positions {
            for &frequency in frequencies {
                let (s, c) = f64::from(position as f32 * frequency).sin_cos();
                cos.push(c as f32 * magnitude);
                sin.push(s as f32 * magnitude);
            }
        }
        let place = |values| Tensor::from_vec(values, (rows, 1, pairs), device);
        Ok(Self { cos: place(cos)?, sin: place(sin)?, rows, pairs })
    }

    /// Several runs of rows combined; all have the same number of pairs.
    pub(crate) fn join(runs: &[&Self]) -> TensorResult<Self> {
        let cat = |part: fn(&Self) -> &Tensor| {
            let parts: Vec<&Tensor> = runs.iter().map(|run| part(run)).collect();
            Tensor::cat(&parts, 0)
        };
        let rows = runs.iter().map(|run| run.rows).sum();
        let pairs = runs.first().map_or(0, |run| run.pairs);
        Ok(Self { cos: cat(|run| &run.cos)?, sin: cat(|run| &run.sin)?, rows, pairs })
    }
}

/// Rotates the first `2 * pairs` elements of every head of `x` `[T, heads * head_dim]` (Su et al., 2021).
pub(crate) fn rotate(x: &Tensor, angles: &RopeAngles, pairs: RopePairs, head_dim: usize) -> TensorResult {
    let (rows, width) = x.dims2()?;
    let turned = 2 * angles.pairs;
    let heads = x.reshape((rows, width / head_dim, 1, head_dim))?;
    let part = heads.narrow(D::Minus1, 0, turned)?.contiguous()?;
    let part = match pairs {
        RopePairs::Adjacent => rotary_emb::rope_i(&part, &angles.cos, &angles.sin)?,
        RopePairs::Halves => rotary_emb::rope(&part, &angles.cos, &angles.sin)?,
    };
    let whole = match head_dim - turned {
        0 => part,
        rest => Tensor::cat(&[&part, &heads.narrow(D::Minus1, turned, rest)?.contiguous()?], D::Minus1)?,
    };
    whole.reshape((rows, width))
}
