//! [`DraftModel`]: guesses of a smaller model with the same vocabulary.

mod asked_draft;
mod drafter;
mod round;
mod states;
mod times;

use crate::capability::Tokenizing;
use crate::draft::{DraftRequest, DraftSource, Drafter};
use crate::error::GenerateError;
use crate::pipeline::TextPipeline;
use crate::scheduler::SchedulerOptions;
use drafter::ModelDrafter;
use states::DraftStates;
use std::fmt;
use std::sync::{Arc, Mutex};

/// Guesses the most likely tokens of a smaller model with the same vocabulary, one after the other, while it is sure of
/// them.
///
/// Its answers share one pool of states: a prompt that starts like an earlier one is not computed again. An answer whose
/// states do not fit, or for which the model fails, goes on without guesses of it.
pub struct DraftModel {
    name: Arc<str>,
    states: Arc<Mutex<DraftStates>>,
}

impl DraftModel {
    /// Guesses of `draft` for answers of `pipeline`. `options` are the sizes of the states of `draft`: the number of
    /// answers that are drafted together, and their tokens. Hooks of `draft` do not act.
    ///
    /// # Errors
    /// A model has no tokenizer, the vocabularies differ, `draft` computes a prompt only as a whole, or its states cannot be
    /// allocated.
    pub fn new(
        draft: &TextPipeline,
        pipeline: &TextPipeline,
        options: SchedulerOptions,
    ) -> Result<Self, GenerateError> {
        let (own, other) = (draft.tokenizer()?, pipeline.tokenizer()?);
        let (name, model) = (draft.name(), pipeline.name());
        if let Some(difference) = difference(&**own, &**other) {
            return Err(GenerateError::Options(format!(
                "{name} cannot guess the tokens of {model}, because their vocabularies differ: {difference}; use a model of \
                 the same family (--draft)"
            )));
        }
        if draft.engine().takes_whole_prompts() {
            return Err(GenerateError::Options(format!(
                "{name} cannot guess tokens, because its layers choose an expert for a whole prompt, or see later tokens; use \
                 another model (--draft)"
            )));
        }
        let common = own.vocabulary().min(other.vocabulary()).min(pipeline.vocabulary());
        let states = DraftStates::new(Arc::clone(draft.engine()), options)?;
        let states = states.with_tokens(common, own.end_of_generation());
        Ok(Self { name: name.into(), states: Arc::new(Mutex::new(states)) })
    }
}

/// The first difference of two vocabularies. One may have more tokens after those of the other.
fn difference(own: &dyn Tokenizing, other: &dyn Tokenizing) -> Option<String> {
    let common = own.vocabulary().min(other.vocabulary());
    let of = |tokenizer: &dyn Tokenizing, id| (tokenizer.bytes(id), tokenizer.is_control(id));
    let first = (0..u32::try_from(common).unwrap_or(u32::MAX)).find(|id| of(own, *id) != of(other, *id))?;
    let text = |tokenizer: &dyn Tokenizing| {
        let (bytes, is_control) = of(tokenizer, first);
        let kind = if is_control { "the control token " } else { "" };
        format!("{kind}{:?}", String::from_utf8_lossy(&bytes))
    };
    Some(format!("token {first} is {}, and {} in the model", text(own), text(other)))
}

impl fmt::Debug for DraftModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DraftModel({})", self.name)
    }
}

impl DraftSource for DraftModel {
    fn start(&self, request: &DraftRequest) -> Result<Box<dyn Drafter>, GenerateError> {
        Ok(Box::new(ModelDrafter::new(Arc::clone(&self.name), Arc::clone(&self.states), request)))
    }
}
