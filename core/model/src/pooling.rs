//! [`Pooling`]: from the rows of a sequence to one vector.

use crate::Result;
use crate::context::TransformContext;
use crate::rows::Rows;

/// How the hidden rows of a sequence become its embedding (`pooling_type` of GGUF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Every row is kept.
    None,
    /// The mean of all rows.
    Mean,
    /// The first row.
    Cls,
    /// The last row.
    Last,
}

impl Pooling {
    /// The row of the step that each pooled row came from; of a mean the sequence's first.
    pub fn origins(self, context: &TransformContext) -> Vec<u32> {
        let sequences = context.layout.sequences();
        match self {
            Self::None => (0..context.layout.rows() as u32).collect(),
            Self::Cls | Self::Mean => sequences.iter().map(|sequence| sequence.rows.start as u32).collect(),
            Self::Last => sequences.iter().map(|sequence| sequence.rows.end as u32 - 1).collect(),
        }
    }

    /// Hidden rows `[T, D]` to one row per sequence of the layout, `[N, D]`, in its order; [`Pooling::None`] gives all.
    ///
    /// # Errors
    /// What the backend reports.
    pub fn pool(self, hidden: Rows, context: &TransformContext) -> Result<Rows> {
        let (backend, sequences) = (&context.compute.backend, context.layout.sequences());
        match self {
            Self::None => Ok(hidden),
            Self::Cls | Self::Last => backend.select(&hidden, &self.origins(context)),
            Self::Mean => {
                let width = hidden.cols();
                let values = backend.read(&hidden)?;
                let means = sequences.iter().flat_map(|sequence| mean(&values, sequence.rows.clone(), width));
                backend.upload(means.collect(), width)
            }
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
