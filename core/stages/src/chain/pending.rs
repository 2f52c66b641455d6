//! [`PendingSteps`]: steps whose answers have not come, after which faults are named.

use crate::fault::StageFault;
use crate::frame::Header;
use crate::session::Session;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A step whose answer has not come.
struct Pending {
    session: Weak<Session>,
    request: u64,
    epoch: u32,
    step: u32,
    position: u32,
    /// Its rows, where they are of one sequence.
    rows: u32,
}

impl Pending {
    /// Whether its memory was lost meanwhile, so that nobody waits for its answer.
    fn is_over(&self) -> bool {
        self.session.upgrade().is_none_or(|session| session.epoch() != self.epoch)
    }
}

/// What an answer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answers {
    /// The oldest step that is waited for.
    Oldest,
    /// A later one: those before it have no answer.
    Later,
    /// A step of this epoch, and it is an answer of another one.
    Foreign(u32),
    /// Nothing that anybody waits for.
    Nothing,
}

/// Steps whose answers have not come, in the order they were sent, which is that of the answers.
#[derive(Default)]
pub(super) struct PendingSteps {
    steps: VecDeque<Pending>,
    /// Since when the first of them is the next to be answered.
    since: Option<Instant>,
}

impl PendingSteps {
    /// A step is about to be sent, for so many sequences.
    pub(super) fn sending(&mut self, session: &Arc<Session>, header: &Header, sequences: usize) {
        let rows = if sequences == 1 { header.rows } else { 0 };
        let Header { request, epoch, step, position, .. } = *header;
        let session = Arc::downgrade(session);
        if self.steps.is_empty() {
            self.since = Some(Instant::now());
        }
        self.steps.push_back(Pending { session, request, epoch, step, position, rows });
    }

    /// The step that was added last was not sent.
    pub(super) fn unsent(&mut self, step: u32) {
        drop(self.steps.pop_back_if(|last| last.step == step));
    }

    /// An answer came, which is taken off where it is the oldest one's.
    pub(super) fn answered(&mut self, header: &Header) -> Answers {
        while self.steps.front().is_some_and(|one| one.step < header.step && one.is_over()) {
            self.steps.pop_front();
        }
        let is_its =
            |one: &Pending| (one.request, one.epoch, one.step) == (header.request, header.epoch, header.step);
        self.since = Some(Instant::now());
        if self.steps.front().is_some_and(is_its) {
            self.steps.pop_front();
            return Answers::Oldest;
        }
        match self.steps.iter().find(|one| one.step == header.step) {
            Some(one) if is_its(one) => Answers::Later,
            Some(one) => Answers::Foreign(one.epoch),
            None => Answers::Nothing,
        }
    }

    /// Since when the stages owe the next answer, if anybody waits for one.
    pub(super) fn owed_since(&self) -> Option<Instant> {
        self.since.filter(|_| self.steps.iter().any(|one| !one.is_over()))
    }

    /// The oldest step.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.steps.front().map(|one| one.step)
    }

    /// A fault with request and rows of its step: of this number, or 0 for one that is not known, which is the oldest that is
    /// waited for, since all before it were answered.
    pub(super) fn name(&self, fault: StageFault, step: u32) -> StageFault {
        let is_its = |one: &&Pending| {
            (fault.request == 0 || one.request == fault.request)
                && if step == 0 { !one.is_over() } else { one.step == step }
        };
        match self.steps.iter().find(is_its) {
            Some(&Pending { request, position, rows, .. }) => StageFault { request, position, rows, ..fault },
            None => fault,
        }
    }

    /// Nothing is waited for any more, of one request or of all (0).
    pub(super) fn forget(&mut self, request: u64) {
        self.steps.retain(|one| request != 0 && one.request != request);
    }
}
