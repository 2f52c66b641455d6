//! [`Snapshot`]: a point a sequence can go back to.

use crate::state::KeptBlock;
use crate::{ModelError, Result};

/// A point a sequence, or a fork of it, can go back to: its length and copies of its per-sequence states.
///
/// Rows of per-token states are not copied: they stay where they are as long as nothing below the snapshot is
/// truncated and no window has left them, which [`super::StatePool::restore`] checks.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(super) mark: u64,
    pub(super) len: usize,
    /// By set and per-sequence state, in the order of the ids.
    pub(super) values: Vec<KeptBlock>,
}

impl Snapshot {
    /// Tokens at the time of the snapshot.
    pub fn tokens(&self) -> usize {
        self.len
    }

    /// The copies, set by set, of each per-sequence state in the order of the ids.
    ///
    /// # Errors
    /// [`ModelError::Unsupported`] if the backing keeps them itself (stages of a model).
    pub fn values(&self) -> Result<Vec<&[f32]>> {
        let mut all = Vec::with_capacity(self.values.len());
        for kept in &self.values {
            let KeptBlock::Values(values) = kept else {
                return Err(ModelError::Unsupported(
                    "the states of a model that is split into stages cannot be kept elsewhere; run the model in one piece"
                        .to_owned(),
                ));
            };
            all.push(values.as_slice());
        }
        Ok(all)
    }

    /// Bytes of the copies.
    pub fn bytes(&self) -> usize {
        self.values.iter().map(KeptBlock::bytes).sum()
    }
}
