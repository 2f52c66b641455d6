//! [`SessionStates`]: the states of a request in a stage, and the limits of their size.
//!
//! The sizes arrive in a frame from another program. They are checked before anything is allocated, together with the
//! states of the other requests of the stage.

use super::{Fault, StageWorker, execution};
use crate::block_copies::BlockCopies;
use crate::fault::FaultKind;
use crate::frame::FrameHeader;
use crate::message::state_change::SetChange;
use menagerie_model::{PoolOptions, StatePool, StateSpec};
use std::collections::HashMap;
use std::ops::Range;

/// Most requests of a stage at once.
const MOST_REQUESTS: usize = 4096;

/// Most sequences of a request.
const MOST_SEQUENCES: usize = 1 << 16;

/// Most state sets of a request. The models with the most have two (X-LoRA).
const MOST_SETS: usize = 8;

/// A request in this stage.
pub(super) struct StageSession {
    pub(super) epoch: u32,
    /// `None` after a fault: later frames of this epoch are ignored.
    pub(super) states: Option<SessionStates>,
}

/// The states of a request in this stage.
pub(super) struct SessionStates {
    /// The attention windows, in the order of the page tables.
    pub(super) windows: Vec<Option<usize>>,
    pub(super) copies: BlockCopies,
    pub(super) pool: StatePool,
    /// Bytes of the pool.
    pool_bytes: u64,
}

impl SessionStates {
    pub(super) fn new(pool: StatePool, pool_bytes: u64, windows: Vec<Option<usize>>) -> Self {
        Self { windows, copies: BlockCopies::default(), pool, pool_bytes }
    }

    /// Bytes of the pool and of the copies.
    fn bytes(&self) -> u64 {
        self.pool_bytes.saturating_add(self.copies.bytes())
    }

    /// Applies changes to the states with the numbers `own`; pool and copies may take `room` bytes.
    pub(super) fn change(
        &mut self,
        changes: &[SetChange],
        own: &Range<usize>,
        room: u64,
    ) -> Result<(), Fault> {
        for change in changes {
            change.apply(own, &mut self.pool, &mut self.copies).map_err(execution)?;
            if self.bytes() > room {
                return Err(too_large(self.bytes(), room));
            }
        }
        Ok(())
    }
}

impl StageWorker {
    /// Bytes that the states of a request may take, beside those of the others.
    pub(super) fn room_of(&self, request: u64) -> u64 {
        let Some(limit) = self.parts.state_memory else { return u64::MAX };
        let others = self.sessions.iter().filter(|(other, _)| **other != request);
        let bytes = others.filter_map(|(_, session)| Some(session.states.as_ref()?.bytes()));
        limit.saturating_sub(bytes.fold(0, u64::saturating_add))
    }

    /// Whether another request may be opened.
    pub(super) fn check_requests(&self) -> Result<(), Fault> {
        if self.sessions.len() < MOST_REQUESTS {
            return Ok(());
        }
        let detail =
            format!("{MOST_REQUESTS} requests are open, the most that a stage supports; close some of them");
        Err((FaultKind::TooLarge, detail))
    }
}

/// The states of a request in its epoch; `None` after a fault.
pub(super) fn states_of<'s>(
    sessions: &'s mut HashMap<u64, StageSession>,
    header: &FrameHeader,
) -> Result<Option<&'s mut SessionStates>, Fault> {
    let Some(session) = sessions.get_mut(&header.request) else {
        return Err((FaultKind::Missing, "a step of a request that is not open".to_owned()));
    };
    if session.epoch != header.epoch {
        let detail = format!("a step of epoch {}, but epoch {} is open", header.epoch, session.epoch);
        return Err((FaultKind::Stale, detail));
    }
    Ok(session.states.as_mut())
}

/// Bytes of a pool with these options; checked before it is allocated.
///
/// # Errors
/// [`FaultKind::TooLarge`]: more than `room` bytes, or more sequences or state sets than a stage supports.
pub(crate) fn pool_bytes(options: &PoolOptions, specs: &[StateSpec], room: u64) -> Result<u64, Fault> {
    let limits = [("sequences", options.sequences, MOST_SEQUENCES), ("state sets", options.sets, MOST_SETS)];
    if let Some((what, found, most)) = limits.into_iter().find(|(_, found, most)| found > most) {
        let detail =
            format!("a request of {found} {what}, at most {most} are supported; use smaller batches");
        return Err((FaultKind::TooLarge, detail));
    }
    let bytes = options.memory(specs).map_err(execution)?;
    if bytes > room {
        return Err(too_large(bytes, room));
    }
    Ok(bytes)
}

fn too_large(bytes: u64, room: u64) -> Fault {
    let detail = format!(
        "the states of a request need {bytes} bytes, and {room} are available in this stage; use a smaller context (-c), fewer \
         sequences at once, or a larger --memory-limit"
    );
    (FaultKind::TooLarge, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use menagerie_model::KvType;

    fn specs() -> Vec<StateSpec> {
        let rows =
            StateSpec::PerToken { name: "k".to_owned(), dtype: None, heads: 2, head_dim: 4, window: None };
        vec![rows, StateSpec::PerSequence { name: "s".to_owned(), shape: vec![4] }]
    }

    fn refused(options: PoolOptions, room: u64) -> String {
        let (kind, detail) = pool_bytes(&options, &specs(), room).unwrap_err();
        assert_eq!(kind, FaultKind::TooLarge, "{detail}");
        detail
    }

    #[test]
    fn a_pool_is_measured_before_it_is_allocated() {
        // 2 * 4 f32 for each of 64 tokens, and 4 f32 for each of 2 sequences.
        let options = PoolOptions { page_len: 16, ..PoolOptions::sequences(KvType::F32, 2, 32) };
        let bytes = pool_bytes(&options, &specs(), u64::MAX).unwrap();
        assert!((64 * 32 + 32..64 * 48).contains(&bytes), "{bytes}");
        assert_eq!(pool_bytes(&options, &specs(), bytes), Ok(bytes));
        let detail = refused(options, bytes - 1);
        assert!(detail.contains(&bytes.to_string()) && detail.contains("--memory-limit"), "{detail}");
        assert!(pool_bytes(&options.with_sets(2), &specs(), bytes).is_err());
    }

    #[test]
    fn numbers_that_no_request_has_are_refused() {
        let options = PoolOptions::sequences(KvType::F32, 1, 8);
        assert!(
            refused(PoolOptions { sequences: 1 << 17, ..options }, u64::MAX).contains("131072 sequences")
        );
        assert!(refused(options.with_sets(usize::MAX), u64::MAX).contains("at most 8"));
        let all = PoolOptions { capacity_tokens: usize::MAX, max_sequence_tokens: usize::MAX, ..options };
        assert!(pool_bytes(&all, &specs(), 1 << 40).is_err());
        assert!(pool_bytes(&PoolOptions { page_len: 0, ..options }, &specs(), 1 << 40).is_err());
    }
}
