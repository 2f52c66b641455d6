//! [`PendingSteps`]: steps whose answers have not come, after which faults are named.

use crate::fault::StageFault;
use crate::frame::Header;
use crate::session::Session;
use menagerie_model::SequenceId;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A step whose answer has not come.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) session: Weak<Session>,
    pub(super) request: u64,
    epoch: u32,
    step: u32,
    pub(super) position: u32,
    /// Its rows, where they are of one sequence.
    pub(super) rows: u32,
    pub(super) sequences: Vec<PendingRows>,
}

/// The rows of a sequence in a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingRows {
    pub(super) sequence: SequenceId,
    /// Position of the first one.
    pub(super) first: usize,
    pub(super) rows: usize,
    /// From here on they were computed again since.
    until: usize,
}

impl PendingRows {
    /// So many rows of a sequence.
    pub(super) fn new(sequence: SequenceId, first: usize, rows: usize) -> Self {
        Self { sequence, first, rows, until: first.saturating_add(rows) }
    }

    /// Whether what it computed for a position is what the sequence holds.
    pub(super) fn holds(&self, position: usize) -> bool {
        (self.first..self.until).contains(&position)
    }
}

impl Pending {
    /// Whether its memory was lost meanwhile, so that nobody waits for its answer.
    fn is_over(&self) -> bool {
        self.session.upgrade().is_none_or(|session| session.epoch() != self.epoch)
    }
}

/// What an answer answers.
#[derive(Debug)]
pub(super) enum Answers {
    /// The oldest step that is waited for.
    Oldest(Pending),
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
    /// A step is about to be sent, with rows of these sequences.
    pub(super) fn sending(&mut self, session: &Arc<Session>, header: &Header, sequences: Vec<PendingRows>) {
        let rows = if sequences.len() == 1 { header.rows } else { 0 };
        let Header { request, epoch, step, position, .. } = *header;
        for own in &sequences {
            session.computes(own.sequence, own.first);
            let before = self.steps.iter_mut().filter(|one| one.request == request);
            let before = before.flat_map(|one| &mut one.sequences).filter(|one| one.sequence == own.sequence);
            before.for_each(|one| one.until = one.until.min(own.first));
        }
        // Steps that are over are waited for by nobody.
        if self.steps.iter().all(Pending::is_over) {
            self.since = Some(Instant::now());
        }
        let session = Arc::downgrade(session);
        self.steps.push_back(Pending { session, request, epoch, step, position, rows, sequences });
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
        if let Some(answered) = self.steps.pop_front_if(|one| is_its(one)) {
            return Answers::Oldest(answered);
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

    /// The oldest step that is waited for: of one that is over stages may be done with all, whatever they do now.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.steps.iter().find(|one| !one.is_over()).map(|one| one.step)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::states::StagedStates;
    use crate::frame::FrameKind;
    use menagerie_model::{KvType, PoolOptions, StatePool};
    use std::time::Duration;

    fn session(number: u64) -> Arc<Session> {
        Arc::new(Session::new(number, PoolOptions::sequences(KvType::F32, 2, 8), Arc::default()))
    }

    fn header(session: &Session, step: u32) -> Header {
        let (request, epoch) = (session.number, session.epoch());
        Header { request, epoch, step, rows: 4, ..Header::of(FrameKind::Step) }
    }

    /// Ids are a pool's.
    fn sequence(session: &Arc<Session>) -> SequenceId {
        let backing = || StagedStates::closed(Arc::clone(session));
        let mut pool =
            StatePool::with_backing(Vec::new(), session.options, |_| Ok(Box::new(backing()))).unwrap();
        pool.create().unwrap()
    }

    /// After a step that was given up neither who is late nor since when is told by it.
    #[test]
    fn steps_that_are_over_are_nobodys() {
        let (one, two) = (session(1), session(2));
        let mut pending = PendingSteps::default();
        pending.sending(&one, &header(&one, 5), Vec::new());
        assert_eq!(pending.oldest(), Some(5));
        one.lose(None);
        assert_eq!((pending.oldest(), pending.owed_since()), (None, None));
        std::thread::sleep(Duration::from_millis(20));
        let later = Instant::now();
        pending.sending(&two, &header(&two, 6), Vec::new());
        assert_eq!(pending.oldest(), Some(6));
        assert!(pending.owed_since().is_some_and(|since| since >= later));
        pending.sending(&two, &header(&two, 7), Vec::new());
        assert!(matches!(pending.answered(&header(&two, 6)), Answers::Oldest(_)));
        assert_eq!(pending.oldest(), Some(7));
    }

    /// What a step found of rows that were computed again since is nobody's.
    #[test]
    fn rows_that_were_computed_again_are_not_held_as_they_were() {
        let session = session(1);
        let own = sequence(&session);
        let mut pending = PendingSteps::default();
        pending.sending(&session, &header(&session, 1), vec![PendingRows::new(own, 0, 4)]);
        pending.sending(&session, &header(&session, 2), vec![PendingRows::new(own, 4, 4)]);
        pending.sending(&session, &header(&session, 3), vec![PendingRows::new(own, 6, 2)]);
        let mut holds = |step: u32| match pending.answered(&header(&session, step)) {
            Answers::Oldest(one) => (0..9).filter(|at| one.sequences[0].holds(*at)).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!([holds(1), holds(2), holds(3)], [vec![0, 1, 2, 3], vec![4, 5], vec![6, 7]]);
    }
}
