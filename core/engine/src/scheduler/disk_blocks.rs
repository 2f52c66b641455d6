//! Blocks on disk: states that a request starts with, and states that are stored as they are computed.
//!
//! Rows of states that keep one for every token are stored block by block. States that do not (windows, recurrent
//! states) are stored as snapshots at the ends of some blocks, so a request can only start there; a chunk ends at each
//! such place of a prompt. Nothing here is an error of a request, except an error of the pool that also a step would have.

use super::Scheduler;
use super::disk_layout::{BlockLayout, LayoutPart, content_bytes};
use super::disk_states::DiskStates;
use super::prefix_cache::PrefixQuery;
use crate::disk_cache::{BlockChain, BlockFile, BlockKind, PendingBlock};
use crate::error::GenerateError;
use crate::sequence::Sequence;
use menagerie_model::StatePool;
use std::sync::Arc;

/// Reading a token takes at most this part of the time of computing it. So a prefix on disk is read if it saves at least
/// this part of its tokens; otherwise the prefix in memory is used.
const READ_COST: usize = 16;

/// What became of a sequence.
enum FillResult {
    /// It has the blocks.
    Whole,
    /// It is empty, and there are no pages for the blocks.
    NoRoom,
    /// It is empty; only so many blocks are on disk.
    Without(usize),
}

impl Scheduler {
    /// Fills the sequence with the longest prefix of the prompt on disk, if that saves enough. At most `reusable` tokens
    /// are used. Returns the blocks of the prompt, and the tokens that were read; `None` if nothing is to be stored.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
    pub(crate) fn read_blocks(
        &mut self,
        sequence: &mut Sequence,
        prompt: &[u32],
        reusable: usize,
    ) -> Result<Option<(BlockChain, usize)>, GenerateError> {
        let Some(disk) = self.disk.take() else { return Ok(None) };
        let read = self.read_blocks_of(&disk, sequence, prompt, reusable);
        self.disk = Some(disk);
        read
    }

    fn read_blocks_of(
        &mut self,
        disk: &DiskStates,
        sequence: &mut Sequence,
        prompt: &[u32],
        reusable: usize,
    ) -> Result<Option<(BlockChain, usize)>, GenerateError> {
        let regime = self.engine.regime_of(prompt.len());
        let Some(root) = disk.root(sequence, regime, self.hooks.layers.effects()) else { return Ok(None) };
        let mut chain = BlockChain::new((root, regime), disk.layout.block_tokens, prompt);
        chain.stored = disk.cache.present(&chain);
        if disk.layout.needs_snapshot() {
            chain.place_snapshots(prompt.len());
        }
        let (adapters, salt) = (sequence.adapters.clone(), sequence.salt.clone());
        let query = PrefixQuery { prompt, adapters, regime, salt };
        let held = self.reach(sequence, &query)?.min(reusable);
        let block = disk.layout.block_tokens;
        let most = prompt.len().saturating_sub(1).min(reusable) / block;
        if most * block <= held {
            return Ok(Some((chain, 0)));
        }
        let mut blocks = disk.readable(&chain, most.min(chain.stored));
        while blocks * block > held && (blocks * block - held) * READ_COST >= blocks * block {
            match self.fill_from_disk(disk, sequence, &query, &chain, blocks)? {
                FillResult::Whole => {
                    disk.cache.count(blocks * block);
                    return Ok(Some((chain, blocks * block)));
                }
                FillResult::NoRoom => break,
                // Each turn is for fewer blocks, or without this snapshot.
                FillResult::Without(missing) => {
                    chain.stored = chain.stored.min(missing);
                    blocks = disk.readable(&chain, missing.min(blocks - 1));
                }
            }
        }
        disk.cache.count(0);
        Ok(Some((chain, 0)))
    }

    /// Fills a sequence with the first `blocks` blocks of a chain. If that fails it is empty.
    fn fill_from_disk(
        &mut self,
        disk: &DiskStates,
        sequence: &mut Sequence,
        query: &PrefixQuery,
        chain: &BlockChain,
        blocks: usize,
    ) -> Result<FillResult, GenerateError> {
        let tokens = blocks * disk.layout.block_tokens;
        self.reset(sequence)?;
        let first = disk.layout.first(tokens);
        while !self.pool.can_refill(tokens, &first, 1) {
            if !self.evict(None)? {
                return Ok(FillResult::NoRoom);
            }
        }
        let filled = self.pool.refill(sequence.id, tokens, &first).map_err(GenerateError::from);
        let filled = filled.and_then(|()| self.copy_blocks(disk, sequence, query.prompt, chain, blocks));
        match filled {
            Ok(None) => {
                sequence.tokens = query.prompt[..tokens].to_vec();
                (sequence.computed, sequence.prompt, sequence.regime) = (tokens, tokens, query.regime);
                if self.engine.is_recurrent() {
                    sequence.snapshots.push(Arc::new(self.pool.snapshot(sequence.id)?));
                }
                Ok(FillResult::Whole)
            }
            Ok(Some(missing)) => {
                self.pool.truncate(sequence.id, 0)?;
                Ok(FillResult::Without(missing))
            }
            Err(error) => {
                disk.cache.fault(|| format!("a state from the disk cache cannot be used: {error}"));
                self.pool.truncate(sequence.id, 0)?;
                Ok(FillResult::NoRoom)
            }
        }
    }

    /// Copies blocks and the snapshot after them into a sequence. Returns how many blocks can be used if one is missing.
    fn copy_blocks(
        &mut self,
        disk: &DiskStates,
        sequence: &Sequence,
        prompt: &[u32],
        chain: &BlockChain,
        blocks: usize,
    ) -> Result<Option<usize>, GenerateError> {
        let mut content = Vec::new();
        for index in 0..blocks {
            let parts = disk.layout.rows(index);
            content.resize(content_bytes(&parts), 0);
            let file = block_file(BlockKind::Rows, chain, index, prompt, &disk.layout);
            if !disk.cache.read(&chain.group, &file, &mut content) {
                return Ok(Some(index));
            }
            write_parts(&mut self.pool, sequence, &parts, &content)?;
        }
        if disk.layout.needs_snapshot() {
            let parts = disk.layout.snapshot(blocks * disk.layout.block_tokens);
            content.resize(content_bytes(&parts), 0);
            let file = block_file(BlockKind::Snapshot, chain, blocks - 1, prompt, &disk.layout);
            if !disk.cache.read(&chain.group, &file, &mut content) {
                return Ok(Some(blocks - 1));
            }
            write_parts(&mut self.pool, sequence, &parts, &content)?;
        }
        Ok(None)
    }

    /// Stores the blocks of a sequence that are complete and not on disk yet.
    pub(crate) fn write_blocks(&mut self, sequence: &mut Sequence) {
        // What was lost is computed again, and stored then.
        if self.has_lost(sequence) {
            return;
        }
        let Some(mut chain) = sequence.blocks.take() else { return };
        let Some(disk) = self.disk.take() else { return };
        match self.write_blocks_of(&disk, sequence, &mut chain) {
            Ok(true) => sequence.blocks = Some(chain),
            Ok(false) => {}
            Err(error) => disk.cache.fault(|| format!("a state cannot be read for the disk cache: {error}")),
        }
        self.disk = Some(disk);
    }

    /// Returns whether later blocks are stored, too.
    fn write_blocks_of(
        &mut self,
        disk: &DiskStates,
        sequence: &Sequence,
        chain: &mut BlockChain,
    ) -> Result<bool, GenerateError> {
        // All keys are computed again in the other rope regime.
        if chain.regime != sequence.regime {
            return Ok(false);
        }
        let (tokens, block) = (sequence.tokens(), disk.layout.block_tokens);
        chain.extend(tokens);
        while (chain.stored + 1) * block <= tokens.len() {
            let content = read_parts(&mut self.pool, sequence, &disk.layout.rows(chain.stored))?;
            let file = block_file(BlockKind::Rows, chain, chain.stored, tokens, &disk.layout);
            if !disk.cache.write(pending(&file, chain, content)) {
                return Ok(false);
            }
            chain.stored += 1;
        }
        let blocks = tokens.len() / block;
        if disk.layout.needs_snapshot()
            && tokens.len() == blocks * block
            && chain.wants_snapshot(tokens.len(), sequence.prompt)
            && !disk.cache.has_snapshot(chain, blocks)
        {
            let content = read_parts(&mut self.pool, sequence, &disk.layout.snapshot(tokens.len()))?;
            let file = block_file(BlockKind::Snapshot, chain, blocks - 1, tokens, &disk.layout);
            return Ok(disk.cache.write(pending(&file, chain, content)));
        }
        Ok(true)
    }
}

/// The file of the block at an index, or of the snapshot after it.
fn block_file<'a>(
    kind: BlockKind,
    chain: &BlockChain,
    index: usize,
    tokens: &'a [u32],
    layout: &BlockLayout,
) -> BlockFile<'a> {
    let from = index * layout.block_tokens;
    let tokens = tokens.get(from..from + layout.block_tokens).unwrap_or_default();
    BlockFile { kind, address: chain.address(index), depth: index + 1, tokens }
}

fn pending(file: &BlockFile, chain: &BlockChain, content: Vec<u8>) -> PendingBlock {
    let BlockFile { kind, address, depth, tokens } = *file;
    PendingBlock { kind, address, depth, group: chain.group.clone(), tokens: tokens.to_vec(), content }
}

/// Reads the content of a file from the states of a sequence.
fn read_parts(
    pool: &mut StatePool,
    sequence: &Sequence,
    parts: &[LayoutPart],
) -> Result<Vec<u8>, GenerateError> {
    let mut content = Vec::with_capacity(content_bytes(parts));
    for part in parts {
        pool.use_set(part.set)?;
        match &part.positions {
            Some(positions) => content.extend(pool.read_rows(part.state, sequence.id, positions.clone())?),
            None => {
                let values = pool.read_block(part.state, sequence.id)?;
                content.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            }
        }
    }
    Ok(content)
}

/// Writes the content of a file into the states of a sequence.
fn write_parts(
    pool: &mut StatePool,
    sequence: &Sequence,
    parts: &[LayoutPart],
    content: &[u8],
) -> Result<(), GenerateError> {
    let mut rest = content;
    for part in parts {
        let (own, after) = rest.split_at(part.bytes.min(rest.len()));
        rest = after;
        pool.use_set(part.set)?;
        match &part.positions {
            Some(positions) => pool.write_rows(part.state, sequence.id, positions.start, own)?,
            None => {
                let values: Vec<f32> =
                    own.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
                pool.write_block(part.state, sequence.id, &values)?;
            }
        }
    }
    Ok(())
}
