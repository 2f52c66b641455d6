//! [`SequenceDraft`]: guesses of the next tokens of a sequence, and the rows that a step computed for them.

use menagerie_model::BlockCopy;
use std::collections::VecDeque;

/// Guesses of the next tokens of a sequence. They decide which rows a step computes, and never what the answer is.
#[derive(Debug, Default)]
pub(crate) struct SequenceDraft {
    /// Guesses of the tokens after the pending one.
    proposed: Vec<ProposedToken>,
    /// Guesses whose rows exist after the last computed token, and which the answer has not reached.
    ahead: VecDeque<ProposedToken>,
    /// Where the newest step with guesses began, while the recurrent states are further than the sequence. Absent if
    /// there are no such states.
    pub(crate) start: Option<DraftStart>,
    /// The number of pending tokens whose rows are computed again, because a step with a wrong guess was undone.
    pub(crate) again: usize,
    /// Where the model's own head is to guess: how often its guesses are right.
    question: Option<GuessChances>,
    /// What the head guessed before the newest step, with the grades.
    answer: Option<Vec<(u32, u8)>>,
    /// The number of guesses that were computed so far.
    pub(crate) drafted: usize,
    /// Those of them that became part of the sequence.
    pub(crate) accepted: usize,
    /// Both numbers of the guesses from a predicted answer.
    pub(crate) predicted: [usize; 2],
}

/// The recurrent states of a sequence before a step with guesses. They take no token back, so they are put back if a
/// guess is wrong, and the rows of the tokens that are part of the sequence are computed again.
#[derive(Debug)]
pub(crate) struct DraftStart {
    pub(crate) copies: Vec<BlockCopy>,
    /// Tokens whose state was computed before the step.
    pub(crate) tokens: usize,
    /// Rows of the step that the states have taken; 0 if it failed.
    pub(crate) rows: usize,
}

/// A guess.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ProposedToken {
    pub(crate) id: u32,
    /// The estimated probability that this guess and all guesses before it are right.
    pub(crate) chance: f64,
    /// Whether it comes from a predicted answer.
    pub(crate) is_predicted: bool,
}

/// How often guesses of a head are right, as estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GuessChances {
    /// By grade.
    pub(crate) by_grade: [f64; 8],
    /// For a guess whose grade is not known yet.
    pub(crate) next: f64,
}

impl GuessChances {
    /// The chance of a guess of this grade.
    pub(crate) fn of(&self, grade: u8) -> f64 {
        self.by_grade.get(usize::from(grade)).copied().unwrap_or(0.0)
    }
}

impl SequenceDraft {
    /// Asks the model's own head for guesses for the next step.
    pub(crate) fn ask(&mut self, question: Option<GuessChances>) {
        self.question = question;
    }

    /// What is asked of the model's own head, once.
    pub(crate) fn take_question(&mut self) -> Option<GuessChances> {
        self.question.take()
    }

    /// Proposes what the model's own head guessed, with the grades.
    pub(crate) fn guessed(&mut self, proposed: Vec<ProposedToken>, guesses: Vec<(u32, u8)>) {
        self.proposed = proposed;
        self.answer = Some(guesses);
    }

    /// What the head guessed before the newest step, once.
    pub(crate) fn take_answer(&mut self) -> Option<Vec<(u32, u8)>> {
        self.answer.take()
    }

    /// Proposes these guesses for the next step, instead of earlier ones.
    pub(crate) fn propose(&mut self, tokens: Vec<ProposedToken>) {
        self.proposed = tokens;
    }

    /// The guesses for the next step.
    pub(crate) fn proposed(&self) -> &[ProposedToken] {
        &self.proposed
    }

    /// How many guesses were computed and accepted, and the same of those from a predicted answer.
    pub(crate) fn counts(&self) -> [usize; 4] {
        [self.drafted, self.accepted, self.predicted[0], self.predicted[1]]
    }

    /// Drops all guesses, and the rows of those that were computed. The states stay where they are.
    pub(crate) fn clear(&mut self) {
        self.question = None;
        self.proposed.clear();
        self.ahead.clear();
    }

    /// A step has computed `rows` rows of guesses, of which the first `usable` have logits.
    pub(crate) fn computed(&mut self, rows: usize, usable: usize) {
        self.drafted += rows;
        self.predicted[0] += self.proposed.iter().take(rows).filter(|token| token.is_predicted).count();
        self.ahead = self.proposed.drain(..).take(usable).collect();
    }

    /// Whether `token` is the next guess whose row is computed; it then becomes part of the sequence. Otherwise the other
    /// rows are useless.
    pub(super) fn accepts(&mut self, token: u32) -> bool {
        if let Some(guess) = self.ahead.pop_front().filter(|guess| guess.id == token) {
            self.accepted += 1;
            self.predicted[1] += usize::from(guess.is_predicted);
            return true;
        }
        self.clear();
        false
    }
}
