//! [`DiskStates`]: the disk cache of a scheduler, and what the addresses of its blocks depend on.

use super::disk_layout::BlockLayout;
use crate::disk_cache::{AddressRoot, BlockAddress, BlockChain, DiskCache, DiskCacheCounts};
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::hooks::PipelineHooks;
use crate::sequence::Sequence;
use menagerie_model::{RopeRegime, StatePool};
use std::sync::Arc;

/// The cache of a scheduler, with the layout of its states.
pub(super) struct DiskStates {
    pub(super) cache: Arc<DiskCache>,
    pub(super) layout: BlockLayout,
    /// The layout as text, for addresses.
    described: String,
}

impl DiskStates {
    /// The cache for the states of a scheduler.
    ///
    /// # Errors
    /// The cache was opened for another model.
    pub(super) fn new(
        cache: Arc<DiskCache>,
        engine: &Engine,
        pool: &StatePool,
    ) -> Result<Self, GenerateError> {
        if !cache.is_of(engine) {
            return Err(GenerateError::Options(format!(
                "{}: the disk cache was opened for another model or other options; open it for the pipeline that uses it",
                cache.folder().path().display()
            )));
        }
        let layout = BlockLayout::of(pool, cache.block_tokens())?;
        let described =
            serde_json::to_string(&layout).map_err(|error| GenerateError::Options(error.to_string()))?;
        Ok(Self { cache, layout, described })
    }

    /// Reports what the cache has done since the last report of any scheduler.
    pub(super) fn report(&self, hooks: &PipelineHooks) {
        let done = self.cache.take_unreported();
        if done != DiskCacheCounts::default() {
            hooks.disk_counted(&done);
        }
    }

    /// Waits until everything is written.
    pub(super) fn flush(&self) {
        self.cache.flush();
    }

    /// The address of the empty sequence with the adapters and the salt of a sequence, this regime and these effects of
    /// hooks. `None` if they cannot be identified.
    pub(super) fn root(
        &self,
        sequence: &Sequence,
        regime: RopeRegime,
        effects: Vec<String>,
    ) -> Option<BlockAddress> {
        let identity = match self.cache.identity(sequence.adapters.as_deref(), effects) {
            Ok(identity) => identity,
            Err(error) => {
                self.cache.fault(|| format!("a request is not cached on disk: {error}"));
                return None;
            }
        };
        let name = match regime {
            RopeRegime::Short => "short",
            RopeRegime::Long => "long",
        };
        let (layout, salt) = (&*self.described, sequence.salt.as_deref());
        match (AddressRoot { identity: &identity, regime: name, layout, salt }).address() {
            Ok(root) => {
                self.cache.describe(&root.group(), &identity);
                Some(root)
            }
            Err(error) => {
                self.cache.fault(|| format!("a request is not cached on disk: {error}"));
                None
            }
        }
    }

    /// The most blocks, up to `most`, that a sequence can start with.
    pub(super) fn readable(&self, chain: &BlockChain, most: usize) -> usize {
        match self.layout.needs_snapshot() {
            true => (1..=most).rev().find(|&blocks| self.cache.has_snapshot(chain, blocks)).unwrap_or(0),
            false => most,
        }
    }
}
