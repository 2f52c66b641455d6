//! The values that adapters add to a weight.

use menagerie_model::{
    Arithmetic, Backend, LinearInput, LinearPart, LowRank, ModelError, Param, Product, SiteForm, Weight,
    WeightShape,
};
use std::ops::Range;

/// Rows of a low-rank product that are computed at once.
const ROWS: usize = 512;

/// A weight `[rows, cols]` as the forward computes it with one adapter: plus LoRA, then scaled by DoRA.
pub(super) fn merge_linear(
    backend: &dyn Backend,
    own: &mut [f32],
    cols: usize,
    part: &LinearPart,
    weight: f32,
) -> Result<(), ModelError> {
    if let Some(whole) = &part.whole {
        own.copy_from_slice(&matrix(backend, &whole.weight, 0)?);
    }
    if let Some(low_rank) = &part.low_rank {
        add_low_rank(backend, own, cols, (low_rank, 0), weight)?;
    }
    if let Some(magnitude) = &part.magnitude {
        let weight = f64::from(weight);
        for (row, (length, [square, mixed, low])) in
            own.chunks_exact_mut(cols.max(1)).zip(magnitude.lengths.iter().zip(&magnitude.squares))
        {
            let before = (square + 2.0 * weight * mixed + weight * weight * low).max(0.0).sqrt();
            let factor = (f64::from(*length) / before) as f32;
            row.iter_mut().for_each(|value| *value *= factor);
        }
    }
    Ok(())
}

pub(super) fn add_low_rank(
    backend: &dyn Backend,
    own: &mut [f32],
    cols: usize,
    (low_rank, expert): (&LowRank, usize),
    weight: f32,
) -> Result<(), ModelError> {
    let (a, b) = (matrix(backend, &low_rank.a, expert)?, matrix(backend, &low_rank.b, expert)?);
    let rank = low_rank.a.shape().rows;
    let a = Weight::from_f32("A", &a, WeightShape { count: 1, rows: rank, cols })?;
    let turned = a.turned(&backend.values(&a)?)?;
    add_product(backend, own, cols, (&b, &turned), weight * low_rank.scaling)
}

/// Adds the change of a stack of heads to a weight that stores the rows of the heads `[heads * rows of a head, cols]`.
pub(super) fn add_to_heads(
    backend: &dyn Backend,
    own: &mut [f32],
    cols: usize,
    (low_rank, form): (&LowRank, &SiteForm),
    weight: f32,
) -> Result<(), ModelError> {
    let (SiteForm::HeadRows(of) | SiteForm::TurnedHeads(of)) = form else { return Ok(()) };
    let of_head = own.len() / of.heads.max(1);
    for (head, own) in own.chunks_exact_mut(of_head.max(1)).enumerate() {
        let own = &mut own[of.rows.start * cols..of.rows.end * cols];
        if let SiteForm::HeadRows(_) = form {
            add_low_rank(backend, own, cols, (low_rank, head), weight)?;
            continue;
        }
        let rows = of.rows.len();
        let mut change = vec![0.0; own.len()];
        add_low_rank(backend, &mut change, rows, (low_rank, head), weight)?;
        for (row, own) in own.chunks_exact_mut(cols.max(1)).enumerate() {
            own.iter_mut().zip(change.iter().skip(row).step_by(rows)).for_each(|(own, more)| *own += more);
        }
    }
    Ok(())
}

/// `own += factor * left right^T`; `left` is `[rows, rank]`, `right` `[cols, rank]`.
pub(super) fn add_product(
    backend: &dyn Backend,
    own: &mut [f32],
    cols: usize,
    (left, right): (&[f32], &Weight),
    factor: f32,
) -> Result<(), ModelError> {
    let rank = right.shape().cols;
    let right = backend.matrix(right, Arithmetic::Exact)?;
    let product = Product { weight: &right, bias: None };
    for (own, left) in own.chunks_mut(ROWS * cols.max(1)).zip(left.chunks(ROWS * rank.max(1))) {
        let left = backend.upload(left.to_vec(), rank)?;
        let made = backend.products(&[product], &LinearInput::new(&left), Arithmetic::Exact)?;
        let Some(made) = made.first() else { continue };
        own.iter_mut().zip(backend.read(made)?.iter()).for_each(|(own, more)| *own += factor * more);
    }
    Ok(())
}

/// The values of one matrix of a parameter.
pub(super) fn matrix(backend: &dyn Backend, param: &Param, index: usize) -> Result<Vec<f32>, ModelError> {
    let rows = param.shape().rows;
    let ids: Range<u32> = (index * rows) as u32..((index + 1) * rows) as u32;
    let made = backend.lookup(param, &ids.collect::<Vec<_>>())?;
    Ok(backend.read(&made)?.into_owned())
}

/// The values of a vector, which is added to a row of zeros.
pub(super) fn vector(backend: &dyn Backend, param: &Param) -> Result<Vec<f32>, ModelError> {
    let cols = param.shape().cols;
    let row = backend.add_vector(backend.upload(vec![0.0; cols], cols)?, param)?;
    Ok(backend.read(&row)?.into_owned())
}
