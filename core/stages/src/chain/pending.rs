//! [`PendingSteps`]: steps without an answer. Faults are attributed to them.

use super::session::ChainSession;
use crate::fault::StageFault;
use crate::frame::FrameHeader;
use menagerie_model::SequenceId;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A step without an answer.
#[derive(Debug)]
pub(super) struct PendingStep {
    pub(super) session: Weak<ChainSession>,
    pub(super) request: u64,
    epoch: u32,
    step: u32,
    pub(super) position: u32,
    /// Its rows, if they belong to one sequence.
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
    /// From this position on, they have been computed again since.
    until: usize,
}

impl PendingRows {
    /// A number of rows of a sequence.
    pub(super) fn new(sequence: SequenceId, first: usize, rows: usize) -> Self {
        Self { sequence, first, rows, until: first.saturating_add(rows) }
    }

    /// Whether the state of the sequence at a position is from this step.
    pub(super) fn holds(&self, position: usize) -> bool {
        (self.first..self.until).contains(&position)
    }
}

impl PendingStep {
    /// Whether its states have been lost, so that its answer is not needed.
    fn is_obsolete(&self) -> bool {
        self.session.upgrade().is_none_or(|session| session.epoch() != self.epoch)
    }
}

/// The step that an answer belongs to.
#[derive(Debug)]
pub(super) enum AnswerMatch {
    /// The oldest pending step.
    Oldest(PendingStep),
    /// A later step: those before it have no answer.
    Later,
    /// A step of this epoch, but the answer belongs to another epoch.
    Foreign(u32),
    /// No pending step.
    Nothing,
}

/// Steps without an answer, in the order in which they were sent, which is also the order of the answers.
#[derive(Default)]
pub(super) struct PendingSteps {
    steps: VecDeque<PendingStep>,
    /// When the first of them became the next to be answered.
    since: Option<Instant>,
}

impl PendingSteps {
    /// Adds a step that is about to be sent, with rows of these sequences.
    pub(super) fn add(
        &mut self,
        session: &Arc<ChainSession>,
        header: &FrameHeader,
        sequences: Vec<PendingRows>,
    ) {
        let rows = if sequences.len() == 1 { header.rows } else { 0 };
        let FrameHeader { request, epoch, step, position, .. } = *header;
        for own in &sequences {
            session.forget_faults(own.sequence, own.first);
            let before = self.steps.iter_mut().filter(|one| one.request == request);
            let before = before.flat_map(|one| &mut one.sequences).filter(|one| one.sequence == own.sequence);
            before.for_each(|one| one.until = one.until.min(own.first));
        }
        // The answers of obsolete steps are not needed.
        if self.steps.iter().all(PendingStep::is_obsolete) {
            self.since = Some(Instant::now());
        }
        let session = Arc::downgrade(session);
        self.steps.push_back(PendingStep { session, request, epoch, step, position, rows, sequences });
    }

    /// Removes the last step, which was not sent.
    pub(super) fn remove_unsent(&mut self, step: u32) {
        drop(self.steps.pop_back_if(|last| last.step == step));
    }

    /// Finds the step of an answer, and removes it if it is the oldest one.
    pub(super) fn answer(&mut self, header: &FrameHeader) -> AnswerMatch {
        while self.steps.front().is_some_and(|one| one.step < header.step && one.is_obsolete()) {
            self.steps.pop_front();
        }
        let is_its = |one: &PendingStep| {
            (one.request, one.epoch, one.step) == (header.request, header.epoch, header.step)
        };
        self.since = Some(Instant::now());
        if let Some(answered) = self.steps.pop_front_if(|one| is_its(one)) {
            return AnswerMatch::Oldest(answered);
        }
        match self.steps.iter().find(|one| one.step == header.step) {
            Some(one) if is_its(one) => AnswerMatch::Later,
            Some(one) => AnswerMatch::Foreign(one.epoch),
            None => AnswerMatch::Nothing,
        }
    }

    /// When the wait for the next answer began, if one is needed.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.since.filter(|_| self.steps.iter().any(|one| !one.is_obsolete()))
    }

    /// The oldest step whose answer is needed. The stages may have finished obsolete steps completely.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.steps.iter().find(|one| !one.is_obsolete()).map(|one| one.step)
    }

    /// A fault with the request and rows of its step. The step 0 is unknown; the fault is then attributed to the oldest
    /// pending step, since all steps before it have been answered.
    pub(super) fn attribute(&self, fault: StageFault, step: u32) -> StageFault {
        let is_its = |one: &&PendingStep| {
            (fault.request == 0 || one.request == fault.request)
                && if step == 0 { !one.is_obsolete() } else { one.step == step }
        };
        match self.steps.iter().find(is_its) {
            Some(&PendingStep { request, position, rows, .. }) => {
                StageFault { request, position, rows, ..fault }
            }
            None => fault,
        }
    }

    /// Removes the steps of a request, or of all requests (0).
    pub(super) fn forget(&mut self, request: u64) {
        self.steps.retain(|one| request != 0 && one.request != request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::StagedStates;
    use crate::frame::FrameKind;
    use menagerie_model::{KvType, PoolOptions, StatePool};
    use std::time::Duration;

    fn session(number: u64) -> Arc<ChainSession> {
        Arc::new(ChainSession::new(number, PoolOptions::sequences(KvType::F32, 2, 8), Arc::default()))
    }

    fn header(session: &ChainSession, step: u32) -> FrameHeader {
        let (request, epoch) = (session.number, session.epoch());
        FrameHeader { request, epoch, step, rows: 4, ..FrameHeader::of(FrameKind::Step) }
    }

    /// Ids are made by a pool.
    fn sequence(session: &Arc<ChainSession>) -> SequenceId {
        let backing = || StagedStates::closed(Arc::clone(session));
        let mut pool =
            StatePool::with_backing(Vec::new(), session.options, |_| Ok(Box::new(backing()))).unwrap();
        pool.create().unwrap()
    }

    /// An obsolete step has no part in the report of a timeout.
    #[test]
    fn obsolete_steps_are_not_waited_for() {
        let (one, two) = (session(1), session(2));
        let mut pending = PendingSteps::default();
        pending.add(&one, &header(&one, 5), Vec::new());
        assert_eq!(pending.oldest(), Some(5));
        one.lose(None);
        assert_eq!((pending.oldest(), pending.waiting_since()), (None, None));
        std::thread::sleep(Duration::from_millis(20));
        let later = Instant::now();
        pending.add(&two, &header(&two, 6), Vec::new());
        assert_eq!(pending.oldest(), Some(6));
        assert!(pending.waiting_since().is_some_and(|since| since >= later));
        pending.add(&two, &header(&two, 7), Vec::new());
        assert!(matches!(pending.answer(&header(&two, 6)), AnswerMatch::Oldest(_)));
        assert_eq!(pending.oldest(), Some(7));
    }

    /// Faults of rows that were computed again since are dropped.
    #[test]
    fn rows_that_were_computed_again_are_not_of_the_first_step() {
        let session = session(1);
        let own = sequence(&session);
        let mut pending = PendingSteps::default();
        pending.add(&session, &header(&session, 1), vec![PendingRows::new(own, 0, 4)]);
        pending.add(&session, &header(&session, 2), vec![PendingRows::new(own, 4, 4)]);
        pending.add(&session, &header(&session, 3), vec![PendingRows::new(own, 6, 2)]);
        let mut holds = |step: u32| match pending.answer(&header(&session, step)) {
            AnswerMatch::Oldest(one) => (0..9).filter(|at| one.sequences[0].holds(*at)).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!([holds(1), holds(2), holds(3)], [vec![0, 1, 2, 3], vec![4, 5], vec![6, 7]]);
    }
}
