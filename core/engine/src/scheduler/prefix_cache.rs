//! Sequences that begin alike compute their common beginning once: where a new one can go on from one that runs, or from
//! one that is kept after its end.
//!
//! States of which every row stays can be shared up to any token; the others (windows, recurrent states) as they are at a
//! length that a sequence stopped at: where it ended, at its snapshots (some near the end of its prompt: snapshot_positions), or at a
//! cut, a length at which it is known to part from others. Tokens are compared themselves, not hashes of them, with the adapters and the rope regime they were computed
//! with. Hooks and all other options are the scheduler's own.

use super::Scheduler;
use super::memory::release;
use crate::adapter_choice::AdapterChoice;
use crate::error::GenerateError;
use crate::sequence::Sequence;
use menagerie_model::{AdapterSet, RopeRegime, SequenceId};
use std::sync::Arc;

/// Fewest tokens for which it is worth to wait, or to stop at a cut.
pub(crate) const MIN_SHARED_TOKENS: usize = 16;

/// What a sequence is to begin with.
pub(crate) struct PrefixQuery<'a> {
    pub(crate) prompt: &'a [u32],
    pub(crate) adapters: Option<Arc<AdapterSet>>,
    regime: RopeRegime,
}

/// Where a sequence goes on from, and how many of its tokens are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefixSource {
    /// Nowhere.
    Nothing,
    /// A kept sequence.
    Cached(usize, usize),
    /// The one at this place of those that run.
    Running(usize, usize),
}

impl PrefixSource {
    /// Tokens that are there.
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
    /// Whether the state of a sequence is what this one's would be.
    pub(crate) fn matches(&self, source: &Sequence) -> bool {
        source.regime == self.regime && are_same(self.adapters.as_ref(), source.adapters.as_ref())
    }

    /// Whether another one's state would be.
    pub(crate) fn is_like(&self, other: &PrefixQuery) -> bool {
        other.regime == self.regime && are_same(self.adapters.as_ref(), other.adapters.as_ref())
    }
}

impl Scheduler {
    /// The adapters that are meant.
    pub(crate) fn adapters_of(&self, adapted: &AdapterChoice) -> Option<Arc<AdapterSet>> {
        match adapted {
            AdapterChoice::AsOpened => self.engine.adapters.clone(),
            AdapterChoice::Bare => None,
            AdapterChoice::Set(set) => Some(Arc::clone(set)),
        }
    }

    /// What a sequence with this prompt begins with.
    pub(crate) fn prefix_query<'a>(&self, prompt: &'a [u32], adapted: &AdapterChoice) -> PrefixQuery<'a> {
        let regime = self.engine.regime_of(prompt.len());
        PrefixQuery { prompt, adapters: self.adapters_of(adapted), regime }
    }

    /// Where the most tokens are held.
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

    /// Most tokens that a known sequence begins with alike, held in a form to go on from or not.
    pub(crate) fn longest_cached_prefix(&self, start: &PrefixQuery) -> usize {
        let kept = self.cached.iter().filter(|kept| start.matches(kept));
        kept.map(|kept| kept.future_prefix_len(start.prompt)).max().unwrap_or(0)
    }

    /// Whether sequences must stop where others are to go on from.
    pub(crate) fn needs_boundaries(&self) -> bool {
        self.shares_prefixes() && !self.engine.goes_back_anywhere()
    }

    /// Whether sequences share what they begin with.
    pub(crate) fn shares_prefixes(&self) -> bool {
        self.prefixes > 0 && self.is_uniform()
    }

    /// Token rows of a page.
    pub(crate) fn page_len(&self) -> usize {
        self.pool.options().page_len
    }

    /// Tokens that a sequence going on from `source` would have.
    fn reach(&self, source: &Sequence, start: &PrefixQuery) -> Result<usize, GenerateError> {
        if self.pool.is_lost(source.id)? {
            return Ok(0);
        }
        if !start.matches(source) {
            return Ok(0);
        }
        let common = source.computed_prefix_len(start.prompt);
        if common == source.computed || self.engine.goes_back_anywhere() {
            return Ok(common);
        }
        if !self.engine.is_recurrent() && common >= self.pool.shortest(source.id)? {
            return Ok(common);
        }
        let lengths = source.snapshots.iter().map(|snapshot| snapshot.tokens());
        Ok(lengths.filter(|&len| len <= common).max().unwrap_or(0))
    }

    /// A sequence that has what `source` has, or an empty one; `running` are those it was looked for among.
    ///
    /// # Errors
    /// The pool has no place for another.
    pub(crate) fn create_from<'s>(
        &mut self,
        source: PrefixSource,
        mut running: impl Iterator<Item = &'s Sequence>,
    ) -> Result<Sequence, GenerateError> {
        let twin = match source {
            PrefixSource::Nothing => None,
            PrefixSource::Cached(index, _) => {
                // It is the one used last now.
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

    /// Ends a sequence and keeps its state for others that begin alike, as long as there is room.
    ///
    /// # Errors
    /// The sequence is another scheduler's.
    pub fn retire(&mut self, mut sequence: Sequence) -> Result<(), GenerateError> {
        sequence.forget_pending();
        sequence.chunk_boundaries.clear();
        let anywhere = self.engine.goes_back_anywhere();
        let covers = |whole: &Sequence, part: &Sequence| {
            let alike = whole.regime == part.regime
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

    /// Gives up every sequence that is kept for others.
    ///
    /// # Errors
    /// What the pool reports.
    pub fn forget(&mut self) -> Result<(), GenerateError> {
        while self.evict(None)? {}
        Ok(())
    }

    /// Leaves the state at a cut behind for others to go on from.
    pub(super) fn keep_prefix_at_boundary(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        let held = sequence.computed;
        let is_cut = sequence.chunk_boundaries.contains(&held);
        sequence.chunk_boundaries.retain(|cut| *cut > held);
        if !is_cut || !self.needs_boundaries() {
            return Ok(());
        }
        while self.cached.len() >= self.prefixes {
            self.evict(None)?;
        }
        // Only the state: snapshots below it are the sequence's own.
        let mut left = sequence.twin(self.fork(sequence.id)?);
        release(&mut self.pool, &mut left)?;
        left.snapshots.clear();
        self.retire(left)
    }

    /// Gives up the kept sequence that was used least recently, but not the one with this id; `false` if there is none.
    pub(crate) fn evict(&mut self, but: Option<SequenceId>) -> Result<bool, GenerateError> {
        let Some(index) = self.cached.iter().position(|kept| Some(kept.id) != but) else { return Ok(false) };
        let oldest = self.cached.remove(index);
        self.counts.evictions += 1;
        self.free(oldest)?;
        Ok(true)
    }

    /// The id of the kept sequence that a source means.
    pub(crate) fn cached_id(&self, source: PrefixSource) -> Option<SequenceId> {
        match source {
            PrefixSource::Cached(index, _) => self.cached.get(index).map(|kept| kept.id),
            PrefixSource::Nothing | PrefixSource::Running(..) => None,
        }
    }

    /// Tokens there is room for without taking anything away.
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

    /// Notes that a sequence began with tokens that others had computed.
    pub(crate) fn count_shared(&mut self, tokens: usize) {
        self.counts.shared += tokens as u64;
    }
}

#[cfg(test)]
#[path = "prefix_cache_tests.rs"]
mod tests;
