//! [`ChainSession`]: a request, as the chain sees it.

use crate::fault::StageFault;
use crate::message::state_change::{SetChange, StateChange};
use menagerie_model::{PoolOptions, SequenceId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A request: one pool of states, whose memory is in the stages.
pub(crate) struct ChainSession {
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) options: PoolOptions,
    /// The attention windows, in the order of the page tables.
    windows: OnceLock<Vec<Option<usize>>>,
    /// How often the states have been allocated in the stages. When it increases, the previous ones are lost.
    epoch: AtomicU32,
    journal: Mutex<Journal>,
    copies: AtomicU64,
    /// Requests that ended, to be reported to the stages.
    ended: Arc<Mutex<Vec<u64>>>,
}

/// Changes that the stages do not know of yet, and faults.
#[derive(Default)]
struct Journal {
    changes: Vec<SetChange>,
    /// The epoch that is open in the stages.
    opened: Option<u32>,
    /// Why the states of the previous epoch were lost.
    loss: Option<StageFault>,
    /// Faults of single sequences that have not been reported.
    faults: Vec<SequenceFault>,
}

/// A fault of a sequence of a request.
#[derive(Clone, Debug)]
pub(crate) struct SequenceFault {
    pub(crate) sequence: SequenceId,
    /// Position of the row. Nothing from there on is valid.
    pub(crate) position: usize,
    pub(crate) fault: StageFault,
}

impl ChainSession {
    pub(crate) fn new(number: u64, options: PoolOptions, ended: Arc<Mutex<Vec<u64>>>) -> Self {
        let (epoch, journal, copies) = (AtomicU32::new(1), Mutex::default(), AtomicU64::new(0));
        Self { number, options, windows: OnceLock::new(), epoch, journal, copies, ended }
    }

    /// Sets the attention windows, in the order of the page tables.
    pub(crate) fn set_windows(&self, windows: Vec<Option<usize>>) {
        // They belong to the pool, which never changes them.
        drop(self.windows.set(windows));
    }

    /// The attention windows, in the order of the page tables.
    pub(crate) fn windows(&self) -> Vec<Option<usize>> {
        self.windows.get().cloned().unwrap_or_default()
    }

    /// The number of the next copy that the stages keep.
    pub(crate) fn next_copy(&self) -> u64 {
        self.copies.fetch_add(1, Ordering::Relaxed)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// The states in the stages are lost for this reason. They are allocated again, and sequences begin again.
    pub(crate) fn lose(&self, reason: Option<&StageFault>) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        let mut journal = self.journal();
        journal.changes.clear();
        journal.faults.clear();
        journal.loss = reason.cloned();
    }

    /// Why the states of the previous epoch were lost.
    pub(crate) fn loss(&self) -> Option<StageFault> {
        self.journal().loss.clone()
    }

    /// Whether the stages still have to allocate the states of this epoch; marks it as open.
    pub(crate) fn mark_open(&self) -> bool {
        let epoch = self.epoch();
        self.journal().opened.replace(epoch) != Some(epoch)
    }

    /// The changes since the previous step; they are removed here.
    pub(crate) fn take_changes(&self) -> Vec<SetChange> {
        std::mem::take(&mut self.journal().changes)
    }

    /// Restores changes for a later step, because the step with them was not sent.
    pub(crate) fn put_back(&self, changes: &[SetChange]) {
        self.journal().changes.splice(0..0, changes.iter().copied());
    }

    /// Notes a fault of a sequence; only its first one is kept.
    pub(crate) fn note_fault(&self, fault: SequenceFault) {
        let faults = &mut self.journal().faults;
        if faults.iter().all(|known| known.sequence != fault.sequence) {
            faults.push(fault);
        }
    }

    /// A sequence is computed again from this position on: removes its faults from there on.
    pub(crate) fn forget_faults(&self, sequence: SequenceId, from: usize) {
        self.journal().faults.retain(|fault| fault.sequence != sequence || fault.position < from);
    }

    /// Takes the faults of these sequences, with their index. Faults of sequences that no longer exist are dropped.
    pub(crate) fn take_faults(
        &self,
        sequences: &[SequenceId],
        exists: impl Fn(SequenceId) -> bool,
    ) -> Vec<(usize, SequenceFault)> {
        let faults = &mut self.journal().faults;
        let mut taken = Vec::new();
        for fault in std::mem::take(faults) {
            match sequences.iter().position(|sequence| *sequence == fault.sequence) {
                Some(place) => taken.push((place, fault)),
                None if exists(fault.sequence) => faults.push(fault),
                None => {}
            }
        }
        taken
    }

    /// Notes a change for the next step.
    pub(crate) fn note(&self, set: u32, change: StateChange) {
        self.journal().changes.push(SetChange { set, change });
    }
}

impl Drop for ChainSession {
    fn drop(&mut self) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}
