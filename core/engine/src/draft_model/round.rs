//! Rounds of drafts: a step in which each draft gets its next guess.

use super::asked_draft::AskedDraft;
use super::states::{DraftKey, DraftStates};
use crate::draft::DraftToken;
use crate::error::GenerateError;
use crate::sampling::likeliest;
use crate::scheduler::PrefixSource;
use crate::sequence::Sequence;
use std::collections::BTreeMap;

/// The least probability of a guess. A draft ends before a less likely token.
const LEAST_PROBABILITY: f64 = 0.5;

/// A draft that is being computed.
pub(super) struct RunningDraft<'a> {
    pub(super) asked: &'a AskedDraft,
    /// The most guesses that fit into the context.
    pub(super) most: usize,
    /// Tokens of the text that its state does not have yet.
    pub(super) unseen: usize,
    pub(super) guesses: Vec<DraftToken>,
    /// A copy of its state for guesses, if the state cannot return to an earlier token.
    pub(super) copy: Option<Sequence>,
    /// How it ended.
    pub(super) outcome: Option<Result<(), GenerateError>>,
}

/// The most likely next token, and its probability.
type LikeliestToken = (u32, f64);

impl<'a> RunningDraft<'a> {
    pub(super) fn new(asked: &'a AskedDraft, most: usize) -> Self {
        Self { asked, most, unseen: 0, guesses: Vec::new(), copy: None, outcome: None }
    }

    /// Whether it has not ended.
    pub(super) fn is_running(&self) -> bool {
        self.outcome.is_none()
    }

    pub(super) fn end(&mut self, outcome: Result<(), GenerateError>) {
        self.outcome.get_or_insert(outcome);
    }
}

impl DraftStates {
    /// Computes one step of the drafts that go on; with `reads`, of those that compute a longer text. Returns its rows.
    pub(super) fn round(&mut self, drafts: &mut [RunningDraft], reads: bool) -> usize {
        let Self { scheduler, sequences, .. } = self;
        let mut own: BTreeMap<DraftKey, &mut Sequence> =
            sequences.iter_mut().map(|(key, sequence)| (*key, sequence)).collect();
        let (mut parts, mut places, mut flags) = (Vec::new(), Vec::new(), Vec::new());
        for (place, draft) in drafts.iter_mut().enumerate() {
            if !draft.is_running() || (reads && !draft.reads()) {
                continue;
            }
            let sequence = match &mut draft.copy {
                Some(copy) => copy,
                None => match own.remove(&draft.asked.key) {
                    Some(sequence) => sequence,
                    None => continue,
                },
            };
            parts.push(sequence);
            places.push(place);
            flags.push(draft.asked.cancel());
        }
        let before: usize = parts.iter().map(|sequence| sequence.pending()).sum();
        let mut found = Vec::new();
        scheduler.step_for_each(&mut parts, &flags).each(&mut |index, output| {
            let next = output.and_then(|output| Ok(output.last_logits()?.map(likeliest)));
            found.push((places[index], next));
        });
        let after: usize = parts.iter().map(|sequence| sequence.pending()).sum();
        for (place, next) in found {
            let draft = &mut drafts[place];
            match next {
                // More of the text follows.
                Ok(None) => {}
                // Rows that are not numbers give no guess.
                Ok(Some(None)) => draft.end(Ok(())),
                Ok(Some(Some(next))) => {
                    draft.unseen = 0;
                    if let Err(error) = self.guess(draft, next) {
                        draft.end(Err(error));
                    }
                }
                Err(error) => draft.end(Err(error)),
            }
        }
        before.saturating_sub(after)
    }

    /// Adds a guess to a draft, or ends it.
    fn guess(
        &mut self,
        draft: &mut RunningDraft,
        (id, probability): LikeliestToken,
    ) -> Result<(), GenerateError> {
        if probability < LEAST_PROBABILITY || !self.may_guess(id) {
            draft.end(Ok(()));
            return Ok(());
        }
        draft.guesses.push(DraftToken { id, grade: grade(probability) });
        if draft.guesses.len() >= draft.most {
            draft.end(Ok(()));
            return Ok(());
        }
        let Self { scheduler, sequences, .. } = self;
        let Some(sequence) = sequences.get_mut(&draft.asked.key) else { return Ok(()) };
        if draft.copy.is_none() && !scheduler.engine().rewinds_anywhere() {
            let source = PrefixSource::Running(0, sequence.computed);
            draft.copy = Some(scheduler.create_from(source, std::iter::once(&*sequence))?);
        }
        scheduler.push(draft.copy.as_mut().unwrap_or(sequence), id)?;
        Ok(())
    }
}

/// The grade of a guess with this probability.
fn grade(probability: f64) -> u8 {
    match probability {
        p if p < 0.6 => 2,
        p if p < 0.7 => 3,
        p if p < 0.8 => 4,
        p if p < 0.95 => 5,
        _ => 6,
    }
}
