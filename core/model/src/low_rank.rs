//! [`LowRank`]: two narrow matrices and a factor.

use crate::param::{Param, WeightShape};
use crate::{ModelError, Result};

/// `scaling * B A`; for experts one pair of matrices each.
#[derive(Clone, Debug)]
pub struct LowRank {
    /// A, `[rank, in]`, or `[E, rank, in]`; of a table a row for each id, `[V, rank]`.
    pub a: Param,
    /// B, `[out, rank]`, or `[E, out, rank]`.
    pub b: Param,
    /// Multiplies the product: alpha over rank, or over its root (rsLoRA).
    pub scaling: f32,
    /// B once more, in the form that the backend prefers for adding products to rows ([`crate::Backend::low_rank_up`]).
    pub up: Option<Param>,
}

impl LowRank {
    /// The pair for a weight of this shape.
    ///
    /// # Errors
    /// [`ModelError::Shape`] names the matrix that does not fit.
    pub fn new(a: Param, b: Param, scaling: f32, around: WeightShape) -> Result<Self> {
        let rank = a.shape().rows;
        let WeightShape { count, rows, cols } = around;
        expect(&a, WeightShape { count, rows: rank, cols })?;
        expect(&b, WeightShape { count, rows, cols: rank })?;
        Ok(Self { a, b, scaling, up: None })
    }

    /// The pair with B also in the backend's own form.
    pub fn with_up(self, up: Option<Param>) -> Self {
        Self { up, ..self }
    }

    /// The pair for a table `[V, D]`: `a` has a row for each id.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_table(a: Param, b: Param, scaling: f32, around: WeightShape) -> Result<Self> {
        let rank = a.shape().cols;
        expect(&a, WeightShape { count: 1, rows: around.rows, cols: rank })?;
        expect(&b, WeightShape { count: 1, rows: around.cols, cols: rank })?;
        Ok(Self { a, b, scaling, up: None })
    }
}

/// Refuses a matrix of another shape.
fn expect(matrix: &Param, wanted: WeightShape) -> Result<()> {
    let found = matrix.shape();
    if found == wanted {
        return Ok(());
    }
    let written = |shape: WeightShape| match shape.count {
        1 => format!("[{}, {}]", shape.rows, shape.cols),
        count => format!("[{count}, {}, {}]", shape.rows, shape.cols),
    };
    Err(ModelError::Shape {
        what: format!("tensor \"{}\"", matrix.name()),
        expected: written(wanted),
        found: written(found),
    })
}
