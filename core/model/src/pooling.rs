//! From the rows of a sequence to one vector.

use crate::Result;
use crate::context::TransformContext;
use crate::rows::Rows;
use menagerie_formulas::Pooling;

/// The row of the step that each pooled row came from; for a mean the first row of the sequence.
pub(crate) fn origins(pooling: Pooling, context: &TransformContext) -> Vec<u32> {
    let sequences = context.layout.sequences();
    match pooling {
        Pooling::None => (0..context.layout.rows() as u32).collect(),
        Pooling::Cls | Pooling::Mean => sequences.iter().map(|sequence| sequence.rows.start as u32).collect(),
        Pooling::Last => sequences.iter().map(|sequence| sequence.rows.end as u32 - 1).collect(),
    }
}

/// Hidden rows `[T, D]` to one row per sequence of the layout, `[N, D]`, in its order; [`Pooling::None`] returns all
/// rows.
///
/// # Errors
/// What the backend reports.
pub(crate) fn pool(pooling: Pooling, hidden: Rows, context: &TransformContext) -> Result<Rows> {
    let (backend, sequences) = (&context.compute.backend, context.layout.sequences());
    match pooling {
        Pooling::None => Ok(hidden),
        Pooling::Cls | Pooling::Last => backend.select(&hidden, &origins(pooling, context)),
        Pooling::Mean => {
            let width = hidden.cols();
            let values = backend.read(&hidden)?;
            let means = sequences.iter().flat_map(|sequence| mean(&values, sequence.rows.clone(), width));
            backend.upload(means.collect(), width)
        }
    }
}

/// Mean of rows, summed in f64.
fn mean(values: &[f32], rows: std::ops::Range<usize>, width: usize) -> Vec<f32> {
    let mut sums = vec![0.0f64; width];
    for row in values[rows.start * width..rows.end * width].chunks_exact(width.max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sums.into_iter().map(|sum| (sum / rows.len() as f64) as f32).collect()
}
