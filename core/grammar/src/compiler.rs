//! [`GrammarCompiler`]: from sources to constraints over the tokens of a model.

use crate::after_marker::AfterMarker;
use crate::compilation::{compiled, new_factory};
use crate::error::GrammarError;
use crate::matcher::CompiledGrammar;
use crate::source::GrammarSource;
use crate::vocabulary::ModelVocabulary;
use llguidance::ParserFactory;
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::TokEnv;
use menagerie_engine::{Constraint, Tokenizing};
use std::sync::{Arc, Mutex, PoisonError};

/// Compiles sources to constraints over the tokens of one model.
///
/// The trie of the vocabulary is built when the first source is compiled, which takes up to a second or two for a large
/// vocabulary, and is shared by all constraints. Keep the compiler beside the pipeline; it is cheap until then.
pub struct GrammarCompiler {
    tokenizer: Arc<dyn Tokenizing>,
    factory: Mutex<Option<Arc<ParserFactory>>>,
}

impl GrammarCompiler {
    /// A compiler for the model with this tokenizer.
    pub fn new(tokenizer: Arc<dyn Tokenizing>) -> Self {
        Self { tokenizer, factory: Mutex::default() }
    }

    /// A constraint for answers that fit `source`, for one request or for many.
    ///
    /// # Errors
    /// The source cannot be compiled with the tokens of the model, or its vocabulary cannot be used.
    pub fn constraint(&self, source: &GrammarSource) -> Result<Arc<dyn Constraint>, GrammarError> {
        let matcher = compiled(&*self.factory()?, source.what(), source.grammar())?;
        Ok(Arc::new(CompiledGrammar::new(source.what(), matcher)))
    }

    /// A constraint that allows every token until one of the tokens `markers` was taken; what follows fits `source`.
    /// An answer without a marker is free. After the end of what fits, the answer ends.
    ///
    /// # Errors
    /// As [`Self::constraint`].
    pub fn constraint_after(
        &self,
        markers: &[u32],
        source: &GrammarSource,
    ) -> Result<Arc<dyn Constraint>, GrammarError> {
        Ok(Arc::new(AfterMarker::new(markers, self.constraint(source)?)))
    }

    fn factory(&self) -> Result<Arc<ParserFactory>, GrammarError> {
        let mut factory = self.factory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(factory) = &*factory {
            return Ok(Arc::clone(factory));
        }
        let vocabulary: TokEnv = Arc::new(ModelVocabulary::new(Arc::clone(&self.tokenizer))?);
        let slices = SlicedBiasComputer::json_slices();
        let made = Arc::new(
            new_factory(&vocabulary, &slices).map_err(|reason| GrammarError::Vocabulary { reason })?,
        );
        *factory = Some(Arc::clone(&made));
        Ok(made)
    }
}
