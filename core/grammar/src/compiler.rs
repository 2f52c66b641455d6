//! [`GrammarCompiler`]: from sources to constraints over the tokens of a model.

use crate::compilation::{compiled, new_factory};
use crate::control_tokens::ControlTokens;
use crate::error::GrammarError;
use crate::matcher::CompiledGrammar;
use crate::model_parts::ModelParts;
use crate::source::GrammarSource;
use crate::vocabulary::ModelVocabulary;
use llguidance::api::TopLevelGrammar;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::TokEnv;
use menagerie_engine::{Constraint, ConstraintScope, Tokenizing};
use std::sync::{Arc, Mutex, PoisonError};

/// Compiles sources to constraints over the tokens of one model.
///
/// The trie of the vocabulary is built when the first source is compiled, which takes up to a second or two for a large
/// vocabulary, and is shared by all constraints. Keep the compiler beside the pipeline; it is cheap until then.
pub struct GrammarCompiler {
    tokenizer: Arc<dyn Tokenizing>,
    model: Mutex<Option<Arc<ModelParts>>>,
}

impl GrammarCompiler {
    /// A compiler for the model with this tokenizer.
    pub fn new(tokenizer: Arc<dyn Tokenizing>) -> Self {
        Self { tokenizer, model: Mutex::default() }
    }

    /// A constraint for answers that fit `source`, for one request or for many.
    ///
    /// # Errors
    /// The source cannot be compiled with the tokens of the model, or its vocabulary cannot be used.
    pub fn constraint(&self, source: &GrammarSource) -> Result<Arc<dyn Constraint>, GrammarError> {
        constraint_of(&self.model()?, source.what(), ConstraintScope::Text, source.grammar())
    }

    /// What all constraints share; built once.
    pub(crate) fn model(&self) -> Result<Arc<ModelParts>, GrammarError> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = &*model {
            return Ok(Arc::clone(model));
        }
        let vocabulary: TokEnv = Arc::new(ModelVocabulary::new(Arc::clone(&self.tokenizer))?);
        let slices = SlicedBiasComputer::json_slices();
        let factory =
            new_factory(&vocabulary, &slices).map_err(|reason| GrammarError::Vocabulary { reason })?;
        let controls = ControlTokens::new(&*self.tokenizer);
        let made = Arc::new(ModelParts { factory, vocabulary, controls });
        *model = Some(Arc::clone(&made));
        Ok(made)
    }
}

/// A constraint of a grammar over the tokens of a model; `what` names its kind in errors.
///
/// # Errors
/// It cannot be compiled.
pub(crate) fn constraint_of(
    model: &Arc<ModelParts>,
    what: &'static str,
    scope: ConstraintScope,
    grammar: TopLevelGrammar,
) -> Result<Arc<dyn Constraint>, GrammarError> {
    let matcher = compiled(&model.factory, what, grammar)?;
    Ok(Arc::new(CompiledGrammar::new(what, scope, matcher, Arc::clone(model))))
}
