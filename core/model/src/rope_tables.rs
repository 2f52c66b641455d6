//! [`RopeTables`]: cosines and sines of a step, computed once for all layers with the same rope.

use crate::backend::RopeTable;
use std::ops::Range;
use std::sync::Arc;

/// Cosines and sines of a step, for runs of rows of one regime.
pub(crate) type StepTables = Vec<(Range<usize>, RopeTable)>;

/// The rope tables of a step, by rope id; computed at the first use.
#[derive(Clone, Default)]
pub(crate) struct RopeTables {
    pub(crate) tables: Vec<Option<Arc<StepTables>>>,
}
