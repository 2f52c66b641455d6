//! Rows of guesses in a step, what becomes of recurrent states after wrong ones, and which models can compute them.

use super::{PlannedRows, Scheduler};
use crate::draft::{DraftPace, MAX_DRAFT, PricedGuess};
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::hooks::PipelineHooks;
use crate::output::SequenceResult;
use crate::sequence::{DraftStart, ProposedToken, Sequence};
use menagerie_model::InferenceStep;
use std::time::Instant;

impl Scheduler {
    /// Sets when steps compute guesses of the next tokens.
    #[must_use]
    pub fn with_draft_pace(mut self, pace: DraftPace) -> Self {
        self.draft_pace = pace;
        self
    }

    /// Adds rows of guesses to a planned step if it only decodes. They take only rows and pages that are left.
    pub(super) fn add_drafts(&mut self, plan: &mut [PlannedRows], sequences: &mut [&mut Sequence]) {
        let decodes = |planned: &PlannedRows| matches!(planned.step, InferenceStep::Decode { .. });
        if plan.is_empty() || !plan.iter().all(decodes) {
            return;
        }
        // The likeliest guesses first. Those of a sequence stay in order, because their chances only decrease.
        let mut guesses: Vec<(PricedGuess, usize)> = Vec::new();
        for (place, planned) in plan.iter().enumerate() {
            let own = self.priced_guesses(sequences[planned.index], planned.rows.len());
            guesses.extend(own.into_iter().map(|guess| (guess, place)));
        }
        if guesses.is_empty() {
            return;
        }
        let certain: usize = plan.iter().map(|planned| planned.rows.len()).sum();
        guesses.sort_by(|(one, _), (other, _)| other.chance.total_cmp(&one.chance));
        guesses.truncate(self.step_tokens.saturating_sub(certain));
        let count = match self.draft_pace {
            DraftPace::Always => guesses.len(),
            DraftPace::WhenFaster => {
                let priced: Vec<PricedGuess> = guesses.iter().map(|(guess, _)| *guess).collect();
                self.costs.worthwhile(plan.len(), certain, &priced)
            }
        };
        let mut next = 0;
        for (place, planned) in plan.iter_mut().enumerate() {
            let own = guesses[..count].iter().filter(|(_, of)| *of == place).count();
            let certain = planned.rows.len();
            planned.guesses = self.reserve_drafts(sequences[planned.index], certain, own);
            planned.rows = next..next + certain + planned.guesses;
            planned.logits.end += planned.guesses;
            next = planned.rows.end;
        }
    }

    /// The guesses of a sequence that a step can compute after `certain` other rows of it: not past the context or the
    /// regime of its rope.
    fn priced_guesses(&self, sequence: &Sequence, certain: usize) -> Vec<PricedGuess> {
        let (proposed, held) = (sequence.draft.proposed(), sequence.tokens.len());
        if certain != sequence.pending() || certain == 0 {
            return Vec::new();
        }
        let (mut most, mut end) = (proposed.len(), self.engine.context);
        let is_recurrent = self.engine.is_recurrent();
        if is_recurrent {
            // A step that is undone again makes the next one larger.
            most = most.min(MAX_DRAFT.saturating_sub(sequence.draft.again));
            // Recurrent states are stored on disk where they are, so a step ends there.
            end = end.min(sequence.blocks.as_ref().map_or(end, |blocks| blocks.next_in_answer(held)));
        }
        let fits = |(index, guess): &(usize, &ProposedToken)| {
            let total = held + index + 1;
            total <= end
                && self.engine.regime_of(total) == sequence.regime
                && self.engine.check_tokens(&[guess.id]).is_ok()
        };
        let mut before = 1.0;
        let priced = |(index, guess): (usize, &ProposedToken)| {
            let chance = guess.chance;
            let undone = is_recurrent.then_some((index + certain, before));
            before = chance;
            PricedGuess::new(chance, index == 0, undone)
        };
        proposed[..most].iter().enumerate().take_while(fits).map(priced).collect()
    }

    /// Reserves pages for `certain` rows of a sequence and `guesses` guesses, and keeps its recurrent states as they are
    /// now. Returns the number of guesses with room.
    fn reserve_drafts(&mut self, sequence: &mut Sequence, certain: usize, guesses: usize) -> usize {
        let rows = certain + guesses;
        let has_room = guesses > 0 && self.pool.has_room(sequence.id, rows).unwrap_or(false);
        if !has_room || self.pool.reserve(sequence.id, sequence.computed, rows).is_err() {
            return 0;
        }
        if self.engine.is_recurrent() {
            let since = Instant::now();
            let Ok(copies) = self.pool.keep_blocks(sequence.id) else { return 0 };
            sequence.draft.start = Some(DraftStart { copies, tokens: sequence.computed, rows: 0 });
            let time = since.elapsed();
            self.copy_time += time;
            self.costs.copied(time);
        }
        guesses
    }

    /// Settles all sequences of a step ([`Self::settle`]). Returns those that failed.
    pub(crate) fn settle_all(&mut self, sequences: &mut [&mut Sequence]) -> Vec<SequenceResult> {
        let mut failed = Vec::new();
        for (index, sequence) in sequences.iter_mut().enumerate().filter(|(_, one)| !one.in_flight) {
            if let Err(error) = self.settle(sequence) {
                failed.push(SequenceResult { index, rows: Err(error) });
            }
        }
        failed
    }

    /// Makes the recurrent states those after the computed tokens. After a step with guesses they are those after all of
    /// its rows. If all guesses became part of the sequence, there is nothing to do. Otherwise the states are those
    /// before the step again, and the tokens that it added are pending: the next step computes their rows again.
    ///
    /// # Errors
    /// The sequence belongs to another scheduler.
    pub(crate) fn settle(&mut self, sequence: &mut Sequence) -> Result<(), GenerateError> {
        let Some(start) = sequence.draft.start.take() else { return Ok(()) };
        let taken = sequence.computed.saturating_sub(start.tokens);
        if start.rows > 0 && taken == start.rows {
            self.pool.advance(sequence.id, taken)?;
            self.write_blocks(sequence);
            return Ok(());
        }
        let since = Instant::now();
        let undone = self.pool.put_blocks(sequence.id, &start.copies);
        self.costs.copied(since.elapsed());
        sequence.computed = start.tokens;
        sequence.draft.again += taken;
        if undone.is_err() {
            // The states are lost: the tokens are computed again from the first one on.
            let tokens = std::mem::take(&mut sequence.tokens);
            let went = self.rewind(sequence, 0);
            (sequence.prompt, sequence.tokens) = (tokens.len(), tokens);
            went?;
        }
        Ok(())
    }
}

/// Refuses a model that was loaded without a head for further tokens.
///
/// # Errors
/// [`GenerateError::Options`] with the reason.
pub(crate) fn check_head(engine: &Engine) -> Result<(), GenerateError> {
    if engine.model.nextn().is_some() {
        return Ok(());
    }
    Err(GenerateError::Options(
        "the head for further tokens is not loaded, so it cannot guess: open the model with --draft heads, or leave the drafts out"
            .to_owned(),
    ))
}

/// Refuses a model or hooks with which guesses cannot be computed without an effect.
///
/// # Errors
/// [`GenerateError::Options`] with the reason.
pub(crate) fn check_drafts(engine: &Engine, hooks: &PipelineHooks) -> Result<(), GenerateError> {
    let reason = if engine.takes_whole_prompts() {
        "layers of the model choose an expert for a whole prompt, or see later tokens".to_owned()
    } else if engine.model.scaling_shape().is_some() {
        "the adapters of an X-LoRA are weighted from the rows of a whole step".to_owned()
    } else if let Some(hook) = hooks.layers.of_layers().next() {
        format!("the hook {} would see the tokens of wrong drafts", hook.name())
    } else if let Some(component) = engine.model.company_dependent() {
        format!(
            "{component} keeps a recurrent state, and its plugin does not declare that a row has the same bits whichever rows \
             are computed with it (`EXACT_ROWS`)"
        )
    } else if !engine.compute.backend.has_one_answer() {
        let device = engine.compute.backend.name();
        format!("on {device} the last bits of a row depend on the other rows of its step")
    } else {
        return Ok(());
    };
    Err(GenerateError::Options(format!("drafts are not possible: {reason}; leave out --draft")))
}
