//! [`GrammarCompiler`]: from sources to constraints over the tokens of a model.

use crate::apart::{CancelFlag, CompilationPlaces, apart};
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
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// Compiles sources to constraints over the tokens of one model.
///
/// The trie of the vocabulary is built when the first source is compiled, which takes up to a second or two for a large
/// vocabulary, and is shared by all constraints. Keep the compiler beside the pipeline; it is cheap until then.
pub struct GrammarCompiler {
    shared: Arc<SharedCompiler>,
    cancel: CancelFlag,
}

/// What the compilers of all requests share.
struct SharedCompiler {
    tokenizer: Arc<dyn Tokenizing>,
    model: Mutex<Option<Arc<ModelParts>>>,
    places: Arc<CompilationPlaces>,
}

impl GrammarCompiler {
    /// A compiler for the model with this tokenizer.
    pub fn new(tokenizer: Arc<dyn Tokenizing>) -> Self {
        let places = Arc::new(CompilationPlaces::new());
        Self { shared: Arc::new(SharedCompiler { tokenizer, model: Mutex::default(), places }), cancel: None }
    }

    /// The same compiler for a request. Once its flag is set, the request does not wait for a compilation
    /// ([`GrammarError::Cancelled`]).
    #[must_use]
    pub fn for_request(&self, cancel: Option<&Arc<AtomicBool>>) -> Self {
        Self { shared: Arc::clone(&self.shared), cancel: cancel.cloned() }
    }

    /// A constraint for answers that fit `source`, for one request or for many.
    ///
    /// # Errors
    /// The source cannot be compiled with the tokens of the model, or its vocabulary cannot be used; the request is
    /// cancelled.
    pub fn constraint(&self, source: &GrammarSource) -> Result<Arc<dyn Constraint>, GrammarError> {
        self.constraint_of(source.what(), ConstraintScope::Text, source.grammar())
    }

    /// A constraint of a grammar over the tokens of the model; `what` names its kind in errors.
    ///
    /// # Errors
    /// It cannot be compiled; the request is cancelled.
    pub(crate) fn constraint_of(
        &self,
        what: &'static str,
        scope: ConstraintScope,
        grammar: TopLevelGrammar,
    ) -> Result<Arc<dyn Constraint>, GrammarError> {
        let (shared, cancel) = (Arc::clone(&self.shared), self.cancel.clone());
        let place = shared.places.take(&cancel)?;
        let compile = move || {
            let _place = place;
            let model = shared.model()?;
            let matcher = compiled(&model.factory, what, grammar, &cancel)?;
            Ok(CompiledGrammar::new(what, scope, matcher, model))
        };
        Ok(Arc::new(apart(what, &self.cancel, compile)?))
    }

    /// What all constraints share; built once.
    ///
    /// # Errors
    /// The vocabulary cannot be used; the request is cancelled.
    pub(crate) fn model(&self) -> Result<Arc<ModelParts>, GrammarError> {
        let shared = Arc::clone(&self.shared);
        apart("vocabulary", &self.cancel, move || shared.model())
    }
}

impl SharedCompiler {
    fn model(&self) -> Result<Arc<ModelParts>, GrammarError> {
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
