//! [`StagedStates`]: the memory of a pool whose states are in the stages.

use super::head::ChainHead;
use super::session::ChainSession;
use crate::message::state_access::{StateAccess, StatesMessage, to_values};
use crate::message::state_change::StateChange;
use menagerie_model::{BlockCopy, ModelError, RowRun, StateBacking, StateId};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The memory of states in the stages: changes are noted for the next step, contents are requested from the stages.
pub(crate) struct StagedStates {
    pub(super) session: Arc<ChainSession>,
    pub(super) head: Weak<Mutex<ChainHead>>,
    /// The number of the state set.
    pub(super) set: u32,
}

/// The handle of a copy that the stages keep.
struct CopyHandle {
    session: Arc<ChainSession>,
    set: u32,
    state: u32,
    copy: u64,
}

impl Drop for CopyHandle {
    fn drop(&mut self) {
        self.session.note(self.set, StateChange::Forget { state: self.state, copy: self.copy });
    }
}

impl StagedStates {
    /// The memory of stages that are gone: changes are noted, reads and writes are refused.
    pub(crate) fn closed(session: Arc<ChainSession>) -> Self {
        Self { session, head: Weak::new(), set: 0 }
    }

    /// Reads or writes a state in the stage that has it; returns what was read.
    fn access(&self, state: u32, access: StateAccess) -> Result<Vec<u8>, ModelError> {
        let closed = || {
            ModelError::State("the model whose stages have the states was closed; open it again".to_owned())
        };
        let head = self.head.upgrade().ok_or_else(closed)?;
        let mut head = head.lock().unwrap_or_else(PoisonError::into_inner);
        let message = StatesMessage { changes: self.session.take_changes(), set: self.set, state, access };
        Ok(head.access(&self.session, message)?)
    }

    /// The handle of a copy of this pool.
    fn own<'k>(&self, kept: &'k BlockCopy) -> Result<&'k CopyHandle, ModelError> {
        let handle = match kept {
            BlockCopy::Handle(handle) => handle.downcast_ref::<CopyHandle>(),
            BlockCopy::Values(_) => None,
        };
        handle.filter(|one| Arc::ptr_eq(&one.session, &self.session)).ok_or_else(|| {
            ModelError::State("the snapshot belongs to another pool; use a snapshot of this pool".to_owned())
        })
    }
}

impl StateBacking for StagedStates {
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<(), ModelError> {
        self.session.note(self.set, StateChange::CopyPage { state: state.0 as u32, from, to });
        Ok(())
    }

    fn read_rows(&self, state: StateId, run: RowRun) -> Result<Vec<u8>, ModelError> {
        self.access(state.0 as u32, StateAccess::ReadRows(run))
    }

    fn write_rows(&mut self, state: StateId, run: RowRun, bytes: &[u8]) -> Result<(), ModelError> {
        self.access(state.0 as u32, StateAccess::WriteRows(run, bytes.to_vec())).map(drop)
    }

    fn clear_block(&mut self, state: StateId, block: u32) -> Result<(), ModelError> {
        self.session.note(self.set, StateChange::Clear { state: state.0 as u32, block });
        Ok(())
    }

    fn copy_block(&mut self, state: StateId, from: u32, to: u32) -> Result<(), ModelError> {
        self.session.note(self.set, StateChange::CopyBlock { state: state.0 as u32, from, to });
        Ok(())
    }

    fn read_block(&self, state: StateId, block: u32) -> Result<Vec<f32>, ModelError> {
        to_values(&self.access(state.0 as u32, StateAccess::ReadBlock(block))?)
    }

    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<(), ModelError> {
        self.access(state.0 as u32, StateAccess::WriteBlock(block, values.to_vec())).map(drop)
    }

    fn keep_block(&mut self, state: StateId, block: u32) -> Result<BlockCopy, ModelError> {
        let (state, copy) = (state.0 as u32, self.session.next_copy());
        self.session.note(self.set, StateChange::Keep { state, block, copy });
        Ok(BlockCopy::Handle(Arc::new(CopyHandle {
            session: Arc::clone(&self.session),
            set: self.set,
            state,
            copy,
        })))
    }

    fn kept_values(&self, kept: &BlockCopy) -> Result<Vec<f32>, ModelError> {
        if let BlockCopy::Values(values) = kept {
            return Ok(values.clone());
        }
        let CopyHandle { state, copy, .. } = self.own(kept)?;
        to_values(&self.access(*state, StateAccess::ReadCopy(*copy))?)
    }

    fn put_block(&mut self, state: StateId, block: u32, kept: &BlockCopy) -> Result<(), ModelError> {
        if let BlockCopy::Values(values) = kept {
            return self.write_block(state, block, values);
        }
        let (state, own) = (state.0 as u32, self.own(kept)?);
        if (own.set, own.state) != (self.set, state) {
            let reason = format!("a snapshot of state {} cannot be put into state {state}", own.state);
            return Err(ModelError::State(reason));
        }
        self.session.note(self.set, StateChange::Put { state, block, copy: own.copy });
        Ok(())
    }

    fn epoch(&self) -> u64 {
        u64::from(self.session.epoch())
    }

    fn loss(&self) -> Option<ModelError> {
        self.session.loss().map(ModelError::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_model::{KvType, PoolOptions, StatePool, StateSpec};
    use std::sync::atomic::{AtomicU32, Ordering};

    /// The passes of a step have separate state sets: each change is noted for every set.
    #[test]
    fn changes_are_noted_for_every_state_set() {
        let room = PoolOptions::sequences(KvType::F32, 2, 8).with_sets(2);
        let session = Arc::new(ChainSession::new(1, room, Arc::default()));
        let spec = StateSpec::PerSequence { name: "scan".to_owned(), shape: vec![4] };
        let sets = AtomicU32::new(0);
        let mut pool = StatePool::with_backing(vec![spec], room, |_| {
            let (session, set) = (Arc::clone(&session), sets.fetch_add(1, Ordering::Relaxed));
            Ok(Box::new(StagedStates { session, head: Weak::new(), set }))
        })
        .unwrap();
        let first = pool.create().unwrap();
        let kept = pool.snapshot(first).unwrap();
        pool.restore(first, &kept).unwrap();
        pool.fork(first).unwrap();
        drop(kept);
        let noted = session.take_changes();
        let of = |set: u32| -> Vec<StateChange> {
            noted.iter().filter(|one| one.set == set).map(|one| one.change).collect()
        };
        let expected = |copy| {
            [
                StateChange::Keep { state: 0, block: 0, copy },
                StateChange::Put { state: 0, block: 0, copy },
                StateChange::CopyBlock { state: 0, from: 0, to: 1 },
                StateChange::Forget { state: 0, copy },
            ]
        };
        assert_eq!((of(0), of(1)), (expected(0).to_vec(), expected(1).to_vec()));
    }
}
