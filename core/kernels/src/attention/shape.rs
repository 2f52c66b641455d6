//! The arguments of attention: heads and scale, the mask, and where each sequence is stored.

use menagerie_formulas::{AttentionShape, Mask};

use super::biases::{self, AttentionBiases};
use crate::error::{KernelError, check_len};
use crate::kv::KvRows;

/// One sequence of a call.
#[derive(Debug, Clone, Copy)]
pub struct AttentionSequence<'a> {
    /// Its first row of `q` and `out`.
    pub first_row: usize,
    /// How many rows it has there.
    pub row_count: usize,
    /// The position of its first row; the rows are consecutive.
    pub first_position: usize,
    /// Keys of the positions up to `first_position + row_count`, already stored; keys that no row sees may have been
    /// dropped.
    pub keys: KvRows<'a>,
    /// Values of the same positions.
    pub values: KvRows<'a>,
}

impl AttentionSequence<'_> {
    /// Positions that the cache holds for this call.
    pub(crate) fn total(&self) -> usize {
        self.first_position + self.row_count
    }
}

/// Whose heads a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheHeads {
    /// Those of the shape.
    Own,
    /// One, as long as that of the shape or longer, which serves all of them.
    One,
}

/// Checks everything that the kernels rely on.
pub(crate) fn check(
    cache: CacheHeads,
    shape: &AttentionShape,
    sequences: &[AttentionSequence],
    q: &[f32],
    biases: AttentionBiases,
    out: &[f32],
) -> Result<(), KernelError> {
    let AttentionShape { heads, kv_heads, key_dim, value_dim, .. } = *shape;
    if heads == 0 || kv_heads == 0 || !heads.is_multiple_of(kv_heads) || key_dim == 0 || value_dim == 0 {
        let detail = format!("{heads} heads over {kv_heads} of {key_dim} and {value_dim} elements");
        return Err(KernelError::shape("attention: shape", detail));
    }
    if shape.softcap.is_some_and(|cap| cap.is_nan() || cap <= 0.0) {
        return Err(KernelError::shape("attention: softcap", "it must be positive"));
    }
    if matches!(
        shape.mask,
        Mask::Sliding { size: 0 } | Mask::Chunked { size: 0 } | Mask::Symmetric { size: 0 }
    ) {
        return Err(KernelError::shape("attention: mask", "a window of 0 positions sees nothing"));
    }
    biases::check(shape, biases)?;
    let rows = q.len() / (heads * key_dim);
    check_len("attention: q", q.len(), rows * heads * key_dim)?;
    check_len("attention: out", out.len(), rows * heads * value_dim)?;
    check_sequences(cache, shape, sequences, rows)
}

/// Checks that the sequences' rows exist and do not overlap, and that their caches hold the declared positions.
fn check_sequences(
    cache: CacheHeads,
    shape: &AttentionShape,
    sequences: &[AttentionSequence],
    rows: usize,
) -> Result<(), KernelError> {
    let mut taken: Vec<(usize, usize)> = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let end = sequence.first_row.checked_add(sequence.row_count);
        let total = sequence.first_position.checked_add(sequence.row_count);
        let (Some(end), Some(total)) = (end.filter(|&end| end <= rows), total) else {
            let detail = format!("rows {} + {} of {rows}", sequence.first_row, sequence.row_count);
            return Err(KernelError::shape("attention: sequence", detail));
        };
        taken.push((sequence.first_row, end));
        for (what, rows, dim) in [
            ("attention: keys", &sequence.keys, shape.key_dim),
            ("attention: values", &sequence.values, shape.value_dim),
        ] {
            let (fits, expected) = match cache {
                CacheHeads::Own => (rows.heads == shape.kv_heads && rows.head_dim == dim, shape.kv_heads),
                CacheHeads::One => {
                    let whole_blocks = rows.kind.row_bytes(dim).is_some();
                    (rows.heads == 1 && rows.head_dim >= dim && whole_blocks, 1)
                }
            };
            if !fits {
                let detail =
                    format!("{} heads of {}, expected {expected} of {dim}", rows.heads, rows.head_dim);
                return Err(KernelError::shape(what, detail));
            }
            rows.check(what, shape.mask.visible(sequence.first_position, total).start..total)?;
        }
    }
    taken.sort_unstable();
    if taken.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(KernelError::shape("attention: sequences", "two sequences share rows"));
    }
    Ok(())
}
