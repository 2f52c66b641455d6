//! [`RopeTables`]: cosines and sines of a step, made once for all layers that rotate alike.

use crate::backend::RopeTable;
use std::ops::Range;
use std::sync::Arc;

/// Cosines and sines of a step, for runs of rows of one regime.
pub(crate) type StepTables = Vec<(Range<usize>, RopeTable)>;

/// The rope tables of a step, by rope id; made when first needed.
#[derive(Clone, Default)]
pub(crate) struct RopeTables {
    pub(crate) tables: Vec<Option<Arc<StepTables>>>,
}
