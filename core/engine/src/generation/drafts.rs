//! How a generation guesses its next tokens.

use super::Generation;
use crate::request::Event;
use crate::scheduler::Scheduler;
use crate::sequence::Sequence;

impl Generation {
    /// Compares the newest token `id` of the answer with the guess of it. If the next step computes the token, decides how
    /// the tokens after it are guessed for that step ([`Self::propose`]).
    pub(super) fn prepare_draft(
        &mut self,
        id: u32,
        scheduler: &Scheduler,
        sequence: &mut Sequence,
        sink: &mut dyn FnMut(Event),
    ) {
        let Some(drafting) = &mut self.drafting else { return };
        if let Some(guesses) = sequence.draft.take_answer() {
            drafting.head_guessed(guesses);
        }
        drafting.came(id);
        if !sequence.has_next_row() {
            let (costs, pace) = (&scheduler.costs, scheduler.draft_pace);
            drafting.prepare(&sequence.tokens, self.chain.constraint_mut(), costs, pace);
        }
        if let Some(fault) = drafting.fault() {
            tracing::warn!(fault, "there are no more guesses of this answer");
            sink(Event::Notice(fault));
        }
    }

    /// Guesses the tokens after those of the sequence, before a step.
    pub(crate) fn propose(&mut self, scheduler: &mut Scheduler, sequence: &mut Sequence) {
        let Some(drafting) = &mut self.drafting else { return };
        if let Some(proposed) = drafting.propose(&sequence.tokens, &mut scheduler.costs) {
            sequence.draft.propose(proposed);
            sequence.draft.ask(drafting.question());
        }
    }

    /// Counts the guesses that steps computed for this answer.
    pub(super) fn count_drafts(&mut self, sequence: &Sequence) {
        let before = self.drafts_before;
        let [drafted, accepted, predicted, confirmed] = sequence.draft.counts();
        self.statistics.drafted_tokens = drafted - before[0];
        self.statistics.accepted_tokens = accepted - before[1];
        self.statistics.drafted_predictions = predicted - before[2];
        self.statistics.accepted_predictions = confirmed - before[3];
    }
}
