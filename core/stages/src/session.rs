//! [`Session`]: what the chain knows of a request.

use crate::change::{SetChange, StateChange};
use crate::fault::StageFault;
use menagerie_model::{PoolOptions, SequenceId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A request: one pool of states, which the stages hold.
pub(crate) struct Session {
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) options: PoolOptions,
    /// The windows that page tables are numbered by.
    windows: OnceLock<Vec<Option<usize>>>,
    /// Which memory the stages have; a higher one says that what was before is lost.
    epoch: AtomicU32,
    journal: Mutex<Journal>,
    copies: AtomicU64,
    /// Requests that ended, to be told to the stages.
    ended: Arc<Mutex<Vec<u64>>>,
}

/// What the stages were not told yet.
#[derive(Default)]
struct Journal {
    changes: Vec<SetChange>,
    /// The epoch that was opened in the stages.
    opened: Option<u32>,
    /// What happened to the memory of the epoch before.
    loss: Option<StageFault>,
    /// What went wrong with single sequences, until they are told.
    faults: Vec<SequenceFault>,
}

/// What went wrong with a sequence of a request.
#[derive(Clone, Debug)]
pub(crate) struct SequenceFault {
    pub(crate) sequence: SequenceId,
    /// Position of the row; nothing from there on is usable.
    pub(crate) position: usize,
    pub(crate) fault: StageFault,
}

impl Session {
    pub(crate) fn new(number: u64, options: PoolOptions, ended: Arc<Mutex<Vec<u64>>>) -> Self {
        let (epoch, journal, copies) = (AtomicU32::new(1), Mutex::default(), AtomicU64::new(0));
        Self { number, options, windows: OnceLock::new(), epoch, journal, copies, ended }
    }

    /// Says by which windows page tables are numbered.
    pub(crate) fn number_by(&self, windows: Vec<Option<usize>>) {
        // They are the pool's, which never changes them.
        drop(self.windows.set(windows));
    }

    /// The windows that page tables are numbered by.
    pub(crate) fn windows(&self) -> Vec<Option<usize>> {
        self.windows.get().cloned().unwrap_or_default()
    }

    /// The number of a copy that the stages are to keep.
    pub(crate) fn next_copy(&self) -> u64 {
        self.copies.fetch_add(1, Ordering::Relaxed)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// What the stages have is lost, because of this: sequences begin anew, in memory that is made anew.
    pub(crate) fn lose(&self, because: Option<&StageFault>) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        let mut journal = self.journal();
        journal.changes.clear();
        journal.faults.clear();
        journal.loss = because.cloned();
    }

    /// Why the memory of the epoch before was lost.
    pub(crate) fn loss(&self) -> Option<StageFault> {
        self.journal().loss.clone()
    }

    /// Whether the stages must be told to make the memory of this epoch; from now on they are.
    pub(crate) fn opens(&self) -> bool {
        let epoch = self.epoch();
        self.journal().opened.replace(epoch) != Some(epoch)
    }

    /// What happened since the step before.
    pub(crate) fn changes(&self) -> Vec<SetChange> {
        std::mem::take(&mut self.journal().changes)
    }

    /// What happened is told with a later step: the one that was to tell it was not sent.
    pub(crate) fn put_back(&self, changes: &[SetChange]) {
        self.journal().changes.splice(0..0, changes.iter().copied());
    }

    /// Something went wrong with a sequence; what did so first stays.
    pub(crate) fn note_fault(&self, fault: SequenceFault) {
        let faults = &mut self.journal().faults;
        if faults.iter().all(|known| known.sequence != fault.sequence) {
            faults.push(fault);
        }
    }

    /// A sequence is computed from this position on: what went wrong there before counts no more.
    pub(crate) fn computes(&self, sequence: SequenceId, from: usize) {
        self.journal().faults.retain(|fault| fault.sequence != sequence || fault.position < from);
    }

    /// What went wrong with these sequences, by place among them; once. Those that are no more (`lives`) are forgotten.
    pub(crate) fn take_faults(
        &self,
        sequences: &[SequenceId],
        lives: impl Fn(SequenceId) -> bool,
    ) -> Vec<(usize, SequenceFault)> {
        let faults = &mut self.journal().faults;
        let mut taken = Vec::new();
        for fault in std::mem::take(faults) {
            match sequences.iter().position(|sequence| *sequence == fault.sequence) {
                Some(place) => taken.push((place, fault)),
                None if lives(fault.sequence) => faults.push(fault),
                None => {}
            }
        }
        taken
    }

    pub(crate) fn note(&self, set: u32, change: StateChange) {
        self.journal().changes.push(SetChange { set, change });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}
