//! [`Session`]: what the chain knows of a request, and [`StagedStates`], the memory that its pool believes to have.

use crate::change::StateChange;
use menagerie_model::{KeptBlock, ModelError, PoolOptions, Run, StateBacking, StateId};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request: one pool of states, which the stages hold.
pub(crate) struct Session {
    /// Its number, from 1.
    pub(crate) number: u64,
    pub(crate) options: PoolOptions,
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
    changes: Vec<StateChange>,
    /// The epoch that was opened in the stages.
    opened: Option<u32>,
}

impl Session {
    pub(crate) fn new(number: u64, options: PoolOptions, ended: Arc<Mutex<Vec<u64>>>) -> Self {
        let (epoch, journal, copies) = (AtomicU32::new(1), Mutex::default(), AtomicU64::new(0));
        Self { number, options, epoch, journal, copies, ended }
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    /// What the stages have is lost: sequences begin anew, in memory that is made anew.
    pub(crate) fn lose(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        self.journal().changes.clear();
    }

    /// Whether the stages must be told to make the memory of this epoch; from now on they are.
    pub(crate) fn opens(&self) -> bool {
        let epoch = self.epoch();
        self.journal().opened.replace(epoch) != Some(epoch)
    }

    /// What happened since the step before.
    pub(crate) fn changes(&self) -> Vec<StateChange> {
        std::mem::take(&mut self.journal().changes)
    }

    fn note(&self, change: StateChange) {
        self.journal().changes.push(change);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
    }
}

/// Memory that lies in stages: what happens to it is written down for them.
pub(crate) struct StagedStates(pub(crate) Arc<Session>);

/// A copy that the stages keep.
struct KeptCopy {
    session: Arc<Session>,
    state: u32,
    copy: u64,
}

impl Drop for KeptCopy {
    fn drop(&mut self) {
        self.session.note(StateChange::Forget { state: self.state, copy: self.copy });
    }
}

fn elsewhere(what: &str) -> ModelError {
    ModelError::Unsupported(format!(
        "{what} the states of a model that is split into stages, which keep them; run the model in one piece"
    ))
}

impl StateBacking for StagedStates {
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<(), ModelError> {
        self.0.note(StateChange::CopyPage { state: state.0 as u32, from, to });
        Ok(())
    }

    fn read_rows(&self, _state: StateId, _run: Run) -> Result<Vec<u8>, ModelError> {
        Err(elsewhere("reading"))
    }

    fn write_rows(&mut self, _state: StateId, _run: Run, _bytes: &[u8]) -> Result<(), ModelError> {
        Err(elsewhere("writing"))
    }

    fn clear_block(&mut self, state: StateId, block: u32) -> Result<(), ModelError> {
        self.0.note(StateChange::Clear { state: state.0 as u32, block });
        Ok(())
    }

    fn copy_block(&mut self, state: StateId, from: u32, to: u32) -> Result<(), ModelError> {
        self.0.note(StateChange::CopyBlock { state: state.0 as u32, from, to });
        Ok(())
    }

    fn read_block(&self, _state: StateId, _block: u32) -> Result<Vec<f32>, ModelError> {
        Err(elsewhere("reading"))
    }

    fn write_block(&mut self, _state: StateId, _block: u32, _values: &[f32]) -> Result<(), ModelError> {
        Err(elsewhere("writing"))
    }

    fn keep_block(&mut self, state: StateId, block: u32) -> Result<KeptBlock, ModelError> {
        let (state, copy) = (state.0 as u32, self.0.copies.fetch_add(1, Ordering::Relaxed));
        self.0.note(StateChange::Keep { state, block, copy });
        Ok(KeptBlock::Handle(Arc::new(KeptCopy { session: Arc::clone(&self.0), state, copy })))
    }

    fn put_block(&mut self, state: StateId, block: u32, kept: &KeptBlock) -> Result<(), ModelError> {
        let state = state.0 as u32;
        let handle = match kept {
            KeptBlock::Handle(handle) => handle.downcast_ref::<KeptCopy>(),
            KeptBlock::Values(_) => None,
        };
        let own = handle.filter(|one| Arc::ptr_eq(&one.session, &self.0) && one.state == state);
        let copy = own.ok_or_else(|| elsewhere("putting a snapshot of another pool into"))?.copy;
        self.0.note(StateChange::Put { state, block, copy });
        Ok(())
    }

    fn epoch(&self) -> u64 {
        u64::from(self.0.epoch())
    }
}
