//! Rows of guesses in a step, and which models can compute them.

use super::{PlannedRows, Scheduler};
use crate::draft::DraftPace;
use crate::engine::Engine;
use crate::error::GenerateError;
use crate::hooks::PipelineHooks;
use crate::sequence::Sequence;
use menagerie_model::{InferenceStep, StateSpec};

impl Scheduler {
    /// Sets when steps compute guesses of the next tokens.
    #[must_use]
    pub fn with_draft_pace(mut self, pace: DraftPace) -> Self {
        self.draft_pace = pace;
        self
    }

    /// Adds rows of guesses to a planned step if it only decodes. They take only rows and pages that are left.
    pub(super) fn add_drafts(&mut self, plan: &mut [PlannedRows], sequences: &[&mut Sequence]) {
        let decodes = |planned: &PlannedRows| matches!(planned.step, InferenceStep::Decode { .. });
        if plan.is_empty() || !plan.iter().all(decodes) {
            return;
        }
        // The likeliest guesses first. Those of a sequence stay in order, because their chances only decrease.
        let mut guesses: Vec<(f64, usize)> = Vec::new();
        for (place, planned) in plan.iter().enumerate() {
            let sequence = &sequences[planned.index];
            let own = &sequence.draft.proposed()[..self.draft_room(sequence)];
            guesses.extend(own.iter().map(|guess| (guess.chance, place)));
        }
        if guesses.is_empty() {
            return;
        }
        guesses.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        guesses.truncate(self.step_tokens.saturating_sub(plan.len()));
        let count = match self.draft_pace {
            DraftPace::Always => guesses.len(),
            DraftPace::WhenFaster => {
                let chances: Vec<f64> = guesses.iter().map(|(chance, _)| *chance).collect();
                self.costs.worthwhile(plan.len(), &chances)
            }
        };
        let mut next = 0;
        for (place, planned) in plan.iter_mut().enumerate() {
            let own = guesses[..count].iter().filter(|(_, of)| *of == place).count();
            let rows = 1 + self.reserve_drafts(sequences[planned.index], own);
            (planned.rows, planned.logits) = (next..next + rows, 0..rows);
            next += rows;
        }
    }

    /// The number of guesses of a sequence that a step can compute: not past the context or the regime of its rope.
    fn draft_room(&self, sequence: &Sequence) -> usize {
        let (proposed, held) = (sequence.draft.proposed(), sequence.tokens.len());
        let fits = |(index, guess): &(usize, &crate::sequence::ProposedToken)| {
            let total = held + index + 1;
            total <= self.engine.context
                && self.engine.regime_of(total) == sequence.regime
                && self.engine.check_tokens(&[guess.id]).is_ok()
        };
        match sequence.pending() {
            1 => proposed.iter().enumerate().take_while(fits).count(),
            _ => 0,
        }
    }

    /// Reserves pages for the next token of a sequence and `guesses` guesses. Returns the number of guesses with room.
    fn reserve_drafts(&mut self, sequence: &Sequence, guesses: usize) -> usize {
        let rows = 1 + guesses;
        let has_room = guesses > 0 && self.pool.has_room(sequence.id, rows).unwrap_or(false);
        match has_room && self.pool.reserve(sequence.id, sequence.computed, rows).is_ok() {
            true => guesses,
            false => 0,
        }
    }
}

/// Refuses a model or hooks with which guesses cannot be computed without an effect.
///
/// # Errors
/// [`GenerateError::Options`] with the reason.
pub(crate) fn check_drafts(engine: &Engine, hooks: &PipelineHooks) -> Result<(), GenerateError> {
    let recurrent = engine.model.states().iter().find_map(|spec| match spec {
        StateSpec::PerSequence { name, .. } => Some(name),
        StateSpec::PerToken { .. } => None,
    });
    let reason = if let Some(name) = recurrent {
        format!("the recurrent state {name} of the model cannot take back the tokens of a wrong draft")
    } else if engine.takes_whole_prompts() {
        "layers of the model choose an expert for a whole prompt, or see later tokens".to_owned()
    } else if engine.model.scaling_shape().is_some() {
        "the adapters of an X-LoRA are weighted from the rows of a whole step".to_owned()
    } else if let Some(hook) = hooks.layers.of_layers().next() {
        format!("the hook {} would see the tokens of wrong drafts", hook.name())
    } else if !engine.compute.backend.has_one_answer() {
        let device = engine.compute.backend.name();
        format!("on {device} the last bits of a row depend on the other rows of its step")
    } else {
        return Ok(());
    };
    Err(GenerateError::Options(format!("drafts are not possible: {reason}; leave out --draft")))
}
