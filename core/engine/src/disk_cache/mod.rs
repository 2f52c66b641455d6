//! [`DiskCache`]: the state of prompts and answers on disk, for later requests of this and other processes.
//!
//! A block is the state of a fixed number of tokens. Its address is a hash of everything that the state depends on: the
//! model, its options, and all tokens from the first one to the end of the block. A request whose prompt begins with
//! known blocks reads them instead of computing them, and gets the same bits.
//!
//! No fault of the cache is an error of a request. A file that is damaged, cut or foreign is counted and removed, and its
//! tokens are computed. A disk that is full or cannot be written is told once ([`DiskCache::take_fault`]).

mod address;
mod block_file;
#[doc(hidden)]
pub mod block_fuzzing;
mod chain;
mod checksum;
mod counts;
mod entry;
mod error;
mod folder;
mod options;
mod writer;

pub(crate) use address::{AddressRoot, BlockAddress};
pub(crate) use block_file::{BlockFile, BlockKind};
pub(crate) use chain::BlockChain;
pub use counts::DiskCacheCounts;
pub use error::DiskCacheError;
pub use folder::{CacheFolder, CacheListing};
pub use options::DiskCacheOptions;
pub(crate) use writer::PendingBlock;

use crate::engine::Engine;
use crate::identity::{AdapterIdentifier, Cacheable, IdentityError, StateIdentity};
use block_file::BlockRead;
use counts::CacheTally;
use folder::CacheGroup;
use menagerie_model::AdapterSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use writer::BlockWriter;

/// A file that was used longer ago than this is marked as used again.
const TOUCH_AGE: Duration = Duration::from_secs(60);

/// A cache of the states of one model in a folder. Other models and other processes may use the same folder.
///
/// ```no_run
/// # use menagerie_engine::{Cacheable, DiskCache, DiskCacheError, DiskCacheOptions, TextPipeline};
/// # use std::sync::Arc;
/// # fn f(model: &impl Cacheable, pipeline: &mut TextPipeline) -> Result<(), DiskCacheError> {
/// let cache = DiskCache::open("cache", DiskCacheOptions::default(), model, Vec::new())?;
/// pipeline.cache_on_disk(Some(Arc::new(cache)));
/// # Ok(())
/// # }
/// ```
pub struct DiskCache {
    folder: CacheFolder,
    options: DiskCacheOptions,
    /// The engine that computes the states.
    engine: Arc<Engine>,
    identity: StateIdentity,
    adapters: Arc<dyn AdapterIdentifier>,
    tally: Arc<CacheTally>,
    writer: BlockWriter,
}

impl DiskCache {
    /// Opens the folder at `path`, which need not exist yet, for the states of `pipeline`. `plugins` names the loaded
    /// plugins, so that states that other code computed are not used.
    ///
    /// # Errors
    /// The folder cannot be made; the model, or something that changes it, cannot be recognized later; the states depend
    /// on more than the tokens before them, or are in other processes.
    pub fn open(
        path: impl AsRef<Path>,
        options: DiskCacheOptions,
        pipeline: &impl Cacheable,
        plugins: Vec<String>,
    ) -> Result<Self, DiskCacheError> {
        if options.block_tokens == 0 {
            return Err(DiskCacheError::Options("blocks of 0 tokens hold nothing; use 1 or more"));
        }
        let engine = Arc::clone(pipeline.engine());
        if engine.takes_whole_prompts() {
            let reason = "they depend on the whole prompt, not only on the tokens before";
            return Err(DiskCacheError::Unsupported(reason.to_owned()));
        }
        if let Some((option, value)) = engine.compute.backend.settings().first() {
            return Err(DiskCacheError::Unsupported(format!(
                "with the device option {option}={value} they depend on how many tokens are computed together"
            )));
        }
        engine.check_readable()?;
        let identity = pipeline.state_identity()?.with_plugins(plugins);
        let folder = CacheFolder::open(path)?;
        let tally = Arc::new(CacheTally::default());
        let writer = BlockWriter::start(folder.clone(), options, Arc::clone(&tally))
            .map_err(|source| DiskCacheError::folder(folder.path(), "start a thread for", source))?;
        let adapters = pipeline.adapter_identifier();
        Ok(Self { folder, options, engine, identity, adapters, tally, writer })
    }

    /// Its folder.
    pub fn folder(&self) -> &CacheFolder {
        &self.folder
    }

    /// What it has done so far.
    pub fn counts(&self) -> DiskCacheCounts {
        self.tally.counts()
    }

    /// What it has done since the last call.
    pub(crate) fn take_unreported(&self) -> DiskCacheCounts {
        self.tally.take_unreported()
    }

    /// The first fault, as a sentence for the user; only once. Requests go on without the cache.
    pub fn take_fault(&self) -> Option<String> {
        self.tally.take_fault()
    }

    /// Waits until everything is written. Dropping the cache waits, too.
    pub fn flush(&self) {
        self.writer.flush();
    }

    /// Whether it was opened for what `engine` computes.
    pub(crate) fn is_of(&self, engine: &Engine) -> bool {
        let own = &self.engine;
        Arc::ptr_eq(&own.model, &engine.model)
            && Arc::ptr_eq(&own.compute.backend, &engine.compute.backend)
            && own.compute.arithmetic == engine.compute.arithmetic
            && own.kv_type == engine.kv_type
    }

    /// Tokens of a block.
    pub(crate) fn block_tokens(&self) -> usize {
        self.options.block_tokens
    }

    /// The identity of the states with these adapters and effects of hooks.
    ///
    /// # Errors
    /// An adapter cannot be identified.
    pub(crate) fn identity(
        &self,
        adapters: Option<&AdapterSet>,
        effects: Vec<String>,
    ) -> Result<StateIdentity, IdentityError> {
        let adapters = adapters.map_or(Ok(Vec::new()), |set| self.adapters.identities(set))?;
        Ok(self.identity.clone().with_adapters(adapters).with_effects(effects))
    }

    /// The number of blocks at the beginning of a chain that are on disk. They count as used.
    pub(crate) fn present(&self, chain: &BlockChain) -> usize {
        let (mut count, mut unused, now) = (0, Vec::new(), SystemTime::now());
        while count < chain.len() {
            let file = BlockFile {
                kind: BlockKind::Rows,
                address: chain.address(count),
                depth: count + 1,
                tokens: &[],
            };
            let path = self.folder.file(&chain.group, &file.name());
            let Ok(found) = fs::metadata(&path) else { break };
            let used = found.modified().unwrap_or(now);
            if now.duration_since(used).unwrap_or_default() > TOUCH_AGE {
                unused.push(path);
            }
            count += 1;
        }
        self.writer.touch(unused);
        count
    }

    /// Whether the snapshot at the end of the first `blocks` blocks of a chain is on disk. It counts as used.
    pub(crate) fn has_snapshot(&self, chain: &BlockChain, blocks: usize) -> bool {
        let Some(last) = blocks.checked_sub(1) else { return false };
        let file =
            BlockFile { kind: BlockKind::Snapshot, address: chain.address(last), depth: blocks, tokens: &[] };
        let path = self.folder.file(&chain.group, &file.name());
        let is_there = path.is_file();
        if is_there {
            self.writer.touch(vec![path]);
        }
        is_there
    }

    /// Reads the content of a file, which is as long as `content`. `false` if it is not there or cannot be used; then it
    /// is removed.
    pub(crate) fn read(&self, group: &str, file: &BlockFile, content: &mut [u8]) -> bool {
        let path = self.folder.file(group, &file.name());
        match file.read(&path, content) {
            BlockRead::Whole => {
                CacheTally::add(&self.tally.read_bytes, content.len() as u64);
                return true;
            }
            BlockRead::Absent => {}
            BlockRead::Damaged => {
                CacheTally::add(&self.tally.damaged, 1);
                tracing::warn!(path = %path.display(), "a file of the disk cache is damaged and was removed");
                if let Err(error) = fs::remove_file(&path) {
                    self.fault(|| format!("{}: damaged, and cannot be removed: {error}", path.display()));
                }
            }
            BlockRead::Unreadable(error) => {
                self.fault(|| format!("{}: cannot read it: {error}", path.display()));
            }
        }
        false
    }

    /// Writes a block soon. `false` if too many wait; the blocks after it are useless then.
    pub(crate) fn write(&self, block: PendingBlock) -> bool {
        self.writer.write(block)
    }

    /// Describes the files of a group for listings.
    pub(crate) fn describe(&self, group: &str, identity: &StateIdentity) {
        let about = CacheGroup {
            architecture: identity.architecture().to_owned(),
            options: identity.summary(),
            block_tokens: self.options.block_tokens,
        };
        self.writer.describe(group.to_owned(), about);
    }

    /// Counts a prompt, which started with `tokens` tokens from the disk.
    pub(crate) fn count(&self, tokens: usize) {
        let count = if tokens > 0 { &self.tally.hits } else { &self.tally.misses };
        CacheTally::add(count, 1);
        CacheTally::add(&self.tally.read_tokens, tokens as u64);
    }

    /// Notes a fault; the first one is told.
    pub(crate) fn fault(&self, text: impl FnOnce() -> String) {
        self.tally.fault(text);
    }
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskCache").field("folder", &self.folder).finish_non_exhaustive()
    }
}
