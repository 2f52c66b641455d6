//! Guesses of the model's own head for further tokens, made before a step.
//!
//! The head reads a token and the row of the model before it, and predicts the next token. Its own row takes the place of
//! the model's for the guess after that. Of several heads, each makes one guess, and reads the rows of the head before it.
//! Their states are in the pool beside those of the model: each step fills them for the
//! rows that it computes, and rows of guesses are overwritten. A sequence with recurrent states whose newest step was undone
//! has several tokens that are not computed; the head reads all of them, with the rows that the undone step had.

use super::Scheduler;
use crate::draft::{DraftPace, DraftToken, MAX_DRAFT, PlainStep, PricedGuess};
use crate::error::GenerateError;
use crate::sampling::likeliest;
use crate::sequence::{GuessChances, ProposedToken, Sequence};
use menagerie_model::{
    InferenceStep, NextnExecutor, SequenceId, SequenceLayout, SequenceRows, StepInput, TransformContext,
};
use std::sync::Arc;
use std::time::Instant;

/// The guesses of one sequence.
struct HeadDraft {
    /// Its index among the sequences of the step.
    index: usize,
    id: SequenceId,
    /// The position of its first token that is not computed.
    position: usize,
    /// The number of such tokens: the next one, and before it those of an undone step.
    pending: usize,
    /// These tokens and the guesses after them.
    tokens: Vec<u32>,
    /// For each of them the row before it, `[tokens, D]`: of the model, or of the head before.
    hidden: Vec<f32>,
    /// What the heads after the first read before the first of these tokens, `[heads - 1, D]`.
    before: Vec<f32>,
    /// The grade of each guess.
    grades: Vec<u8>,
    chances: GuessChances,
    /// The estimated probability that all guesses so far are right.
    chance: f64,
    /// Whether more guesses may follow.
    is_open: bool,
}

impl Scheduler {
    /// Guesses the next tokens of the sequences that ask for it, if all sequences decode. An error of the head ends the
    /// guesses; the answers do not need them.
    pub(crate) fn guess(&mut self, sequences: &mut [&mut Sequence]) {
        let engine = Arc::clone(&self.engine);
        let Some(head) = engine.model.nextn() else { return };
        let due = sequences.iter().filter(|sequence| sequence.uncomputed() > 0);
        let (mut plain, mut decode) = (PlainStep::default(), true);
        for sequence in due {
            plain.sequences += 1;
            plain.rows += 1 + sequence.draft.again;
            decode &= sequence.is_decoding();
        }
        let width = engine.model.shape().embedding_length;
        let drafts =
            sequences.iter_mut().enumerate().filter_map(|(index, one)| HeadDraft::of(index, one, width));
        let mut drafts: Vec<HeadDraft> = drafts.collect();
        if !decode {
            return;
        }
        // One head guesses as often as it is worth it, and each of several heads once.
        let most = if head.heads() > 1 { head.heads().min(MAX_DRAFT) } else { MAX_DRAFT };
        for made in 0..most {
            if !self.is_worth_guessing(plain, made, &drafts) {
                break;
            }
            let start = Instant::now();
            let guessed = self.guess_one((head, made), &mut drafts, sequences);
            self.costs.head_guessed(start.elapsed());
            if let Err(error) = guessed {
                tracing::warn!(
                    "the head for further tokens failed, and guesses no more in this step: {error}"
                );
                break;
            }
        }
        for draft in drafts.into_iter().filter(|draft| !draft.grades.is_empty()) {
            // The step reserves what it needs.
            let freed = self.pool.reserve(draft.id, draft.position, 0);
            if let Err(error) = freed {
                tracing::debug!("room of guesses is not freed: {error}");
            }
            draft.propose(sequences);
        }
    }

    /// Whether one more guess of each open draft is expected to pay for the time of the head and of its row.
    fn is_worth_guessing(&self, plain: PlainStep, made: usize, drafts: &[HeadDraft]) -> bool {
        let is_recurrent = self.engine.is_recurrent();
        let open = drafts.iter().filter(|draft| draft.is_open);
        let priced: Vec<PricedGuess> = open.map(|draft| draft.priced(is_recurrent)).collect();
        let guessed: usize = drafts.iter().map(|draft| draft.grades.len()).sum();
        match self.draft_pace {
            _ if priced.is_empty() || made >= MAX_DRAFT => false,
            DraftPace::Always => true,
            DraftPace::WhenFaster => self.costs.is_worth_guessing(plain, guessed, &priced),
        }
    }

    /// Adds a guess to every open draft.
    fn guess_one(
        &mut self,
        (head, made): (&dyn NextnExecutor, usize),
        drafts: &mut [HeadDraft],
        sequences: &[&mut Sequence],
    ) -> Result<(), GenerateError> {
        let (mut parts, mut tokens, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        for draft in drafts.iter_mut().filter(|draft| draft.is_open) {
            draft.is_open = self.has_head_room(draft);
            if !draft.is_open {
                continue;
            }
            // The rows of its guesses so far are computed again: the pool appends only after computed tokens.
            let rows = tokens.len()..tokens.len() + draft.tokens.len();
            tokens.extend_from_slice(&draft.tokens);
            hidden.extend_from_slice(&draft.hidden);
            parts.push(SequenceRows {
                sequence: draft.id,
                rows,
                first_position: draft.position,
                step: InferenceStep::Decode { current_position: draft.position },
                regime: sequences[draft.index].regime,
                logits: draft.tokens.len() - 1..draft.tokens.len(),
                adapters: None,
            });
        }
        if parts.is_empty() {
            return Ok(());
        }
        let (engine, layout) = (Arc::clone(&self.engine), SequenceLayout::new(parts)?);
        let backend = &engine.compute.backend;
        let hidden = backend.upload(hidden, engine.model.shape().embedding_length)?;
        let mut failures = Vec::new();
        let mut context =
            TransformContext::new(&engine.compute, &layout, StepInput::Tokens(&tokens), &mut self.pool);
        context.failures = Some(&mut failures);
        let number = made.min(head.heads().saturating_sub(1));
        let made = head.predict(number, &hidden, &mut context)?;
        drop(context);
        let (logits, rows) = (backend.read(&made.logits)?, backend.read(&made.hidden)?);
        let width = made.hidden.cols();
        let open = drafts.iter_mut().filter(|draft| draft.is_open);
        let own = layout.sequences().iter().zip(logits.chunks_exact(made.logits.cols().max(1)));
        for (place, (draft, (part, logits))) in open.zip(own).enumerate() {
            let own = part.rows.start * width..part.rows.end * width;
            let failed = failures.iter().any(|failure| failure.index == place);
            let rows = rows.get(own).filter(|_| !failed);
            let guess = likeliest(logits).map(|(id, probability)| (id, grade(probability)));
            draft.take(rows.zip(guess), width);
        }
        Ok(())
    }

    /// Reserves room for the rows of a draft: not past the context or the regime of the rope.
    fn has_head_room(&mut self, draft: &HeadDraft) -> bool {
        let rows = draft.tokens.len();
        draft.position + rows < self.engine.context
            && self.engine.check_tokens(&draft.tokens).is_ok()
            && self.pool.has_room(draft.id, rows).unwrap_or(false)
            && self.pool.reserve(draft.id, draft.position, rows).is_ok()
    }
}

impl HeadDraft {
    /// A draft without guesses, for a sequence that asks for them and whose newest row is known.
    fn of(index: usize, sequence: &mut Sequence, width: usize) -> Option<Self> {
        let chances = sequence.draft.take_question()?;
        let (position, pending) = (sequence.computed, sequence.pending());
        if pending != 1 + sequence.draft.again || sequence.swapped.is_some() {
            return None;
        }
        let tokens = sequence.tokens[position..].to_vec();
        let before = sequence.hidden.before(position)?.get(width..)?.to_vec();
        let mut hidden = Vec::new();
        for at in position..position + pending {
            hidden.extend_from_slice(sequence.hidden.before(at)?.get(..width)?);
        }
        let (id, grades) = (sequence.id, Vec::new());
        let (chance, is_open) = (1.0, true);
        Some(Self { index, id, position, pending, tokens, hidden, before, grades, chances, chance, is_open })
    }

    /// What one more guess is expected to bring and to cost.
    fn priced(&self, is_recurrent: bool) -> PricedGuess {
        let undone = is_recurrent.then_some((self.tokens.len(), self.chance));
        PricedGuess::new(self.chance * self.chances.next, self.grades.is_empty(), undone)
    }

    /// Takes the rows of a head at the tokens, and its guess; no more guesses follow without.
    fn take(&mut self, guess: Option<(&[f32], (u32, u8))>, width: usize) {
        let Some((rows, (id, grade))) = guess else {
            self.is_open = false;
            return;
        };
        let next = self.grades.len() * width;
        match self.before.get(next..next + width) {
            // The next head reads the rows of this one.
            Some(first) => self.hidden = [first, rows].concat(),
            // This head reads its own row.
            None => self.hidden.extend_from_slice(&rows[rows.len().saturating_sub(width)..]),
        }
        self.tokens.push(id);
        self.grades.push(grade);
        self.chance *= self.chances.of(grade);
    }

    /// Passes the guesses to the sequence.
    fn propose(self, sequences: &mut [&mut Sequence]) {
        let guesses: Vec<(u32, u8)> =
            self.tokens.iter().skip(self.pending).copied().zip(self.grades).collect();
        let mut chance = 1.0;
        let proposed = guesses.iter().map(|&(id, grade)| {
            chance *= self.chances.of(grade);
            ProposedToken { id, chance, is_predicted: false }
        });
        let proposed = proposed.collect();
        if let Some(sequence) = sequences.get_mut(self.index) {
            sequence.draft.guessed(proposed, guesses);
        }
    }
}

/// The grade of a guess that the head gives this probability; the highest is for tokens that must come.
fn grade(probability: f64) -> u8 {
    const LEAST: [f64; DraftToken::GRADES as usize - 2] = [0.2, 0.35, 0.5, 0.7, 0.85, 0.95];
    LEAST.iter().take_while(|least| probability >= **least).count() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_token_is_guessed_with_its_grade() {
        let graded = |logits| likeliest(logits).map(|(id, probability)| (id, grade(probability)));
        assert_eq!(graded(&[0.0, 9.0, 1.0]), Some((1, 6)));
        assert_eq!(graded(&[0.0; 10]), Some((0, 0)));
        assert_eq!(graded(&[f32::NEG_INFINITY, 1.0, 1.0]), Some((1, 3)));
        assert!(grade(1.0) < DraftToken::GRADES - 1);
    }
}
