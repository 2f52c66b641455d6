//! The prefix cache: sequences with the same prefix compute it once. A new sequence starts with the state of a running
//! sequence, or of one that has ended and is cached.
//!
//! If every state keeps a row for each token, a prefix of any length can be shared. Windowed and recurrent states can
//! be shared only at the lengths where they exist: where a sequence ended, at its snapshots (some are near the end of
//! its prompt, see `snapshot_positions`), and at chunk boundaries, where it is known that other prompts differ. The
//! cache compares the tokens themselves, not hashes of them, the adapters and rope regime that they were computed with,
//! and the salt of the request. Hooks and all other options are the same for a whole scheduler.

use super::Scheduler;
use super::memory::release;
use crate::adapter_choice::AdapterChoice;
use crate::error::GenerateError;
use crate::request::Request;
use crate::sequence::Sequence;
use menagerie_model::{AdapterSet, RopeRegime, SequenceId};
use std::sync::Arc;

/// The fewest shared tokens for which a request waits or a chunk ends.
pub(crate) const MIN_SHARED_TOKENS: usize = 16;

/// What the state of a prefix depends on: tokens, adapters, rope regime; and the salt of the request that may use it.
pub(crate) struct PrefixQuery<'a> {
    pub(crate) prompt: &'a [u32],
    pub(crate) adapters: Option<Arc<AdapterSet>>,
    pub(super) regime: RopeRegime,
    pub(super) salt: Option<Arc<str>>,
}

/// The state that a new sequence starts with, and how many tokens it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefixSource {
    /// None.
    Nothing,
    /// The cached sequence at this index.
    Cached(usize, usize),
    /// The running sequence at this index.
    Running(usize, usize),
}

impl PrefixSource {
    /// The number of tokens.
    pub(crate) fn tokens(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Cached(_, tokens) | Self::Running(_, tokens) => tokens,
        }
    }
}

/// Whether two sequences have the same adapters.
pub(crate) fn are_same(one: Option<&Arc<AdapterSet>>, other: Option<&Arc<AdapterSet>>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.is_same(other),
        _ => false,
    }
}

impl PrefixQuery<'_> {
    /// The query for the first `len` tokens of the prompt, the last of which is computed in any case.
    pub(crate) fn within(self, len: usize) -> Self {
        Self { prompt: &self.prompt[..len.min(self.prompt.len())], ..self }
    }

    /// Whether the state of `source` is valid for this prompt.
    pub(crate) fn matches(&self, source: &Sequence) -> bool {
        source.regime == self.regime
            && source.salt == self.salt
            && are_same(self.adapters.as_ref(), source.adapters.as_ref())
    }

    /// Whether the states of both prompts are valid for each other.
    pub(crate) fn is_like(&self, other: &PrefixQuery) -> bool {
        other.regime == self.regime
            && other.salt == self.salt
            && are_same(self.adapters.as_ref(), other.adapters.as_ref())
    }
}

impl Scheduler {
    /// The adapters that `adapted` names.
    pub(crate) fn adapters_of(&self, adapted: &AdapterChoice) -> Option<Arc<AdapterSet>> {
        match adapted {
            AdapterChoice::AsOpened => self.engine.adapters.clone(),
            AdapterChoice::Bare => None,
            AdapterChoice::Set(set) => Some(Arc::clone(set)),
        }
    }

    /// The query for the prefix of a prompt.
    pub(crate) fn prefix_query<'a>(&self, prompt: &'a [u32], request: &Request) -> PrefixQuery<'a> {
        let regime = self.engine.regime_of(prompt.len());
        let adapters = self.adapters_of(&request.adapters);
        PrefixQuery { prompt, adapters, regime, salt: request.cache_salt.clone() }
    }

    /// Sets the salt of a sequence. If it changes, every token is dropped.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
    pub(crate) fn set_salt(
        &mut self,
        sequence: &mut Sequence,
        salt: Option<&Arc<str>>,
    ) -> Result<(), GenerateError> {
        if sequence.salt.as_ref() != salt {
            self.reset(sequence)?;
            sequence.salt = salt.cloned();
        }
        Ok(())
    }

    /// The sequence that holds the most tokens of the prompt.
    pub(crate) fn prefix_source<'s>(
        &self,
        start: &PrefixQuery,
        running: impl Iterator<Item = &'s Sequence>,
    ) -> Result<PrefixSource, GenerateError> {
        let mut best = PrefixSource::Nothing;
        if !self.shares_prefixes() {
            return Ok(best);
        }
        for (index, sequence) in self.cached.iter().enumerate() {
            let reach = self.reach(sequence, start)?;
            if reach > best.tokens() {
                best = PrefixSource::Cached(index, reach);
            }
        }
        for (index, sequence) in running.enumerate() {
            let reach = self.reach(sequence, start)?;
            if reach > best.tokens() {
                best = PrefixSource::Running(index, reach);
            }
        }
        Ok(best)
    }

    /// The longest prefix that a cached sequence shares with the prompt, whether or not its state exists at that
    /// length.
    pub(crate) fn longest_cached_prefix(&self, start: &PrefixQuery) -> usize {
        let kept = self.cached.iter().filter(|kept| start.matches(kept));
        kept.map(|kept| kept.future_prefix_len(start.prompt)).max().unwrap_or(0)
    }

    /// Whether chunks must end where other prompts differ, because the states cannot be rewound to any position.
    pub(crate) fn needs_boundaries(&self) -> bool {
        self.shares_prefixes() && !self.engine.rewinds_anywhere()
    }

    /// Whether sequences share prefixes.
    pub(crate) fn shares_prefixes(&self) -> bool {
        self.prefixes > 0 && self.is_uniform()
    }

    /// The number of tokens that a sequence with the state of `source` would start with.
    pub(super) fn reach(&self, source: &Sequence, start: &PrefixQuery) -> Result<usize, GenerateError> {
        if self.pool.is_lost(source.id)? {
            return Ok(0);
        }
        // The pages of a step in flight are written in order, but a block has the state after the step.
        if !start.matches(source) || (source.in_flight && !self.engine.rewinds_anywhere()) {
            return Ok(0);
        }
        let common = source.computed_prefix_len(start.prompt);
        if common == source.computed || self.engine.rewinds_anywhere() {
            return Ok(common);
        }
        if !self.engine.is_recurrent() && common >= self.pool.shortest(source.id)? {
            return Ok(common);
        }
        let lengths = source.snapshots.iter().map(|snapshot| snapshot.tokens());
        Ok(lengths.filter(|&len| len <= common).max().unwrap_or(0))
    }

    /// A sequence with the state of `source`, or an empty one; `running` are the sequences among which the source was
    /// found.
    ///
    /// # Errors
    /// The pool has no place for another sequence.
    pub(crate) fn create_from<'s>(
        &mut self,
        source: PrefixSource,
        mut running: impl Iterator<Item = &'s Sequence>,
    ) -> Result<Sequence, GenerateError> {
        let twin = match source {
            PrefixSource::Nothing => None,
            PrefixSource::Cached(index, _) => {
                // It is now the one used last.
                let used = self.cached.remove(index);
                let id = self.fork(used.id);
                let twin = id.map(|id| used.twin(id));
                self.cached.push(used);
                Some(twin?)
            }
            PrefixSource::Running(index, _) => match running.nth(index) {
                Some(sequence) => Some(sequence.twin(self.fork(sequence.id)?)),
                None => None,
            },
        };
        match twin {
            Some(twin) => Ok(self.arrived(twin)),
            None => self.create(),
        }
    }

    /// Numbers a new sequence.
    pub(super) fn arrived(&mut self, mut sequence: Sequence) -> Sequence {
        sequence.urgency.arrival = self.arrivals;
        self.arrivals += 1;
        sequence
    }

    /// Ends a sequence and caches its state for prompts with the same prefix, while there is room.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
    pub(crate) fn retire(&mut self, mut sequence: Sequence) -> Result<(), GenerateError> {
        sequence.forget_pending();
        if self.has_lost(&sequence) {
            return self.free(sequence);
        }
        sequence.lens = None;
        // Frees pages of guesses that were wrong.
        self.pool.truncate(sequence.id, sequence.computed)?;
        sequence.chunk_boundaries.clear();
        let anywhere = self.engine.rewinds_anywhere();
        let covers = |whole: &Sequence, part: &Sequence| {
            let alike = whole.regime == part.regime
                && whole.salt == part.salt
                && are_same(whole.adapters.as_ref(), part.adapters.as_ref())
                && whole.tokens.starts_with(&part.tokens);
            alike && (anywhere || whole.computed == part.computed)
        };
        let useless = sequence.computed < MIN_SHARED_TOKENS || self.prefixes == 0;
        if useless || self.cached.iter().any(|kept| covers(kept, &sequence)) {
            return self.free(sequence);
        }
        while let Some(index) = self.cached.iter().position(|kept| covers(&sequence, kept)) {
            let covered = self.cached.remove(index);
            self.free(covered)?;
        }
        while self.cached.len() >= self.prefixes {
            self.evict(None)?;
        }
        self.cached.push(sequence);
        Ok(())
    }

    /// Drops every cached sequence.
    ///
    /// # Errors
    /// An error of the pool.
    pub fn forget(&mut self) -> Result<(), GenerateError> {
        while self.evict(None)? {}
        Ok(())
    }

    /// At a chunk boundary, caches a copy of the sequence for other prompts with this prefix.
    pub(super) fn keep_prefix_at_boundary(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        let held = sequence.computed;
        let is_boundary = sequence.chunk_boundaries.contains(&held);
        sequence.chunk_boundaries.retain(|end| *end > held);
        if !is_boundary || !self.needs_boundaries() || self.has_lost(sequence) {
            return Ok(());
        }
        while self.cached.len() >= self.prefixes {
            self.evict(None)?;
        }
        // Only the state: earlier snapshots stay with the sequence itself.
        let mut left = sequence.twin(self.fork(sequence.id)?);
        release(&mut self.pool, &mut left)?;
        left.snapshots.clear();
        self.retire(left)
    }

    /// Drops the least recently used cached sequence other than `but`; `false` if there is none.
    pub(crate) fn evict(&mut self, but: Option<SequenceId>) -> Result<bool, GenerateError> {
        let Some(index) = self.cached.iter().position(|kept| Some(kept.id) != but) else { return Ok(false) };
        let oldest = self.cached.remove(index);
        self.counts.evictions += 1;
        self.free(oldest)?;
        Ok(true)
    }

    /// The id of the cached sequence that a source names.
    pub(crate) fn cached_id(&self, source: PrefixSource) -> Option<SequenceId> {
        match source {
            PrefixSource::Cached(index, _) => self.cached.get(index).map(|kept| kept.id),
            PrefixSource::Nothing | PrefixSource::Running(..) => None,
        }
    }

    /// The number of tokens for which there are free pages.
    pub(crate) fn free_tokens(&self) -> usize {
        self.pool.free_tokens()
    }

    fn fork(&mut self, id: SequenceId) -> Result<SequenceId, GenerateError> {
        loop {
            match self.pool.fork(id) {
                Ok(twin) => return Ok(twin),
                Err(error) => self.evict(Some(id))?.then_some(()).ok_or(error)?,
            }
        }
    }

    /// Counts the tokens that a sequence started with because others had computed them.
    pub(crate) fn count_shared(&mut self, tokens: usize) {
        self.counts.shared += tokens as u64;
    }
}

#[cfg(test)]
#[path = "prefix_cache_tests.rs"]
mod tests;
