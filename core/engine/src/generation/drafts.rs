//! How a generation guesses its next tokens.

use super::Generation;
use crate::sequence::Sequence;

impl Generation {
    /// Compares the newest token `id` of the answer with the guess of it. If the next step computes the token, the
    /// sequence gets new guesses for that step.
    pub(super) fn propose(&mut self, id: u32, sequence: &mut Sequence) {
        let Some(drafting) = &mut self.drafting else { return };
        drafting.came(id);
        if !sequence.has_next_row() {
            let proposed = drafting.propose(&sequence.tokens, self.chain.constraint_mut());
            sequence.draft.propose(proposed);
        }
    }
}
