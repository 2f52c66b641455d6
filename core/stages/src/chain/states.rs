//! [`StagedStates`]: the memory that the pool of a chain believes to have.

use super::head::Head;
use crate::change::StateChange;
use crate::session::Session;
use crate::states::{Access, StatesMessage, to_values};
use menagerie_model::{BlockCopy, ModelError, RowRun, StateBacking, StateId};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Memory that lies in stages: what happens to it is written down for them, what it holds is asked of them.
pub(crate) struct StagedStates {
    pub(super) session: Arc<Session>,
    pub(super) head: Weak<Mutex<Head>>,
    /// Which set of states it is.
    pub(super) set: u32,
}

/// A copy that the stages keep.
struct KeptCopy {
    session: Arc<Session>,
    set: u32,
    state: u32,
    copy: u64,
}

impl Drop for KeptCopy {
    fn drop(&mut self) {
        self.session.note(self.set, StateChange::Forget { state: self.state, copy: self.copy });
    }
}

impl StagedStates {
    /// Memory of stages that are gone: changes are noted, reads and writes are refused.
    pub(crate) fn closed(session: Arc<Session>) -> Self {
        Self { session, head: Weak::new(), set: 0 }
    }

    /// Lets the stage that has a state read or write it; gives what was read.
    fn access(&self, state: u32, access: Access) -> Result<Vec<u8>, ModelError> {
        let closed =
            || ModelError::State("the model that keeps the states was closed; open it again".to_owned());
        let head = self.head.upgrade().ok_or_else(closed)?;
        let mut head = head.lock().unwrap_or_else(PoisonError::into_inner);
        let message = StatesMessage { changes: self.session.changes(), set: self.set, state, access };
        Ok(head.access(&self.session, message)?)
    }

    /// The own copy of a state behind a handle.
    fn own<'k>(&self, kept: &'k BlockCopy) -> Result<&'k KeptCopy, ModelError> {
        let handle = match kept {
            BlockCopy::Handle(handle) => handle.downcast_ref::<KeptCopy>(),
            BlockCopy::Values(_) => None,
        };
        handle.filter(|one| Arc::ptr_eq(&one.session, &self.session)).ok_or_else(|| {
            ModelError::State(
                "a snapshot is kept by the stages for another pool; take one of this pool".to_owned(),
            )
        })
    }
}

impl StateBacking for StagedStates {
    fn copy_page(&mut self, state: StateId, from: u32, to: u32) -> Result<(), ModelError> {
        self.session.note(self.set, StateChange::CopyPage { state: state.0 as u32, from, to });
        Ok(())
    }

    fn read_rows(&self, state: StateId, run: RowRun) -> Result<Vec<u8>, ModelError> {
        self.access(state.0 as u32, Access::ReadRows(run))
    }

    fn write_rows(&mut self, state: StateId, run: RowRun, bytes: &[u8]) -> Result<(), ModelError> {
        self.access(state.0 as u32, Access::WriteRows(run, bytes.to_vec())).map(drop)
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
        to_values(&self.access(state.0 as u32, Access::ReadBlock(block))?)
    }

    fn write_block(&mut self, state: StateId, block: u32, values: &[f32]) -> Result<(), ModelError> {
        self.access(state.0 as u32, Access::WriteBlock(block, values.to_vec())).map(drop)
    }

    fn keep_block(&mut self, state: StateId, block: u32) -> Result<BlockCopy, ModelError> {
        let (state, copy) = (state.0 as u32, self.session.next_copy());
        self.session.note(self.set, StateChange::Keep { state, block, copy });
        Ok(BlockCopy::Handle(Arc::new(KeptCopy {
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
        let KeptCopy { state, copy, .. } = self.own(kept)?;
        to_values(&self.access(*state, Access::ReadCopy(*copy))?)
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

    /// Two passes of a step keep states of their own: what happens to them is told of each.
    #[test]
    fn changes_are_those_of_every_state_set() {
        let room = PoolOptions::sequences(KvType::F32, 2, 8).with_sets(2);
        let session = Arc::new(Session::new(1, room, Arc::default()));
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
        let told = session.changes();
        let of = |set: u32| -> Vec<StateChange> {
            told.iter().filter(|one| one.set == set).map(|one| one.change).collect()
        };
        let wanted = |copy| {
            [
                StateChange::Keep { state: 0, block: 0, copy },
                StateChange::Put { state: 0, block: 0, copy },
                StateChange::CopyBlock { state: 0, from: 0, to: 1 },
                StateChange::Forget { state: 0, copy },
            ]
        };
        assert_eq!((of(0), of(1)), (wanted(0).to_vec(), wanted(1).to_vec()));
    }
}
